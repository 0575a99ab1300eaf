"""Customer managed keys of AWS KMS, in place of the keys that AWS manages."""

from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, cast

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct


@dataclass(frozen=True, slots=True)
class CustomerKey:
    """An existing key. CloudFormation does not know its policy, so you state it.

    Attributes:
        arn: the key's ARN; that of an alias gives no permission to a role.
        allows: the services that the key's policy lets use it (`sns`, `events`, `s3`, `cloudwatch`,
            `logs`), and ids of other accounts. Roles of this account need no statement of their
            own if the policy lets IAM policies of the account decide, as the default policy does.
    """

    arn: str
    allows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerKeys:
    """The key of each kind of resource; None for the encryption that needs no key of your own.

    Attributes:
        tables: for DynamoDB tables.
        queues: for SQS queues.
        topics: for SNS topics. Producers then need `kms:GenerateDataKey` and `kms:Decrypt`.
        buckets: for S3 buckets.
        logs: for log groups of CloudWatch.
        secrets: for secrets of Secrets Manager.
    """

    tables: CustomerKey | None = None
    queues: CustomerKey | None = None
    topics: CustomerKey | None = None
    buckets: CustomerKey | None = None
    logs: CustomerKey | None = None
    secrets: CustomerKey | None = None

    @classmethod
    def one(cls, key: CustomerKey) -> "CustomerKeys":
        """Return one key for every kind of resource."""
        return cls(**{field.name: key for field in fields(cls)})


def imported_key(scope: Construct, key: CustomerKey | None) -> kms.IKey | None:
    """Return a key as a part of a stack, in which each has one part; None without a key."""
    if key is None:
        return None
    stack = Stack.of(scope)
    part = f"CustomerKey-{sha256(key.arn.encode()).hexdigest()[:8]}"
    known = stack.node.try_find_child(part)
    return cast(kms.IKey, known) if known else kms.Key.from_key_arn(stack, part, key.arn)


def bucket_encryption(scope: Construct, key: CustomerKey | None) -> dict[str, Any]:
    """Return the arguments of a bucket that is encrypted with a key, or by S3 without one."""
    if key is None:
        return {"encryption": s3.BucketEncryption.S3_MANAGED}
    return {
        "encryption": s3.BucketEncryption.KMS,
        "encryption_key": imported_key(scope, key),
        "bucket_key_enabled": True,
    }
