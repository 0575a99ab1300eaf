"""Permissions on customer managed keys, through the service whose resource they encrypt only."""

from collections.abc import Iterable

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from once.cdk._table_permissions import allow

READ_AND_WRITE = ("kms:Decrypt", "kms:GenerateDataKey")
_ACTIONS = {
    "dynamodb": (
        *READ_AND_WRITE,
        *("kms:DescribeKey", "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
    ),
    "s3": READ_AND_WRITE,
    "secretsmanager": ("kms:Decrypt",),
    "sns": READ_AND_WRITE,
    "sqs": READ_AND_WRITE,
}
"""The actions that a caller needs, by the service that it calls."""

KeyUse = tuple[str, kms.IKey | str | None]
"""A service, and the key (or its ARN) of a resource of it; None without a key of one's own."""


def key_statements(scope: Construct, uses: Iterable[KeyUse]) -> list[iam.PolicyStatement]:
    """Return one statement for each key; none without keys."""
    services: dict[str, set[str]] = {}
    for service, key in uses:
        if key is not None:
            services.setdefault(_arn(key), set()).add(service)
    return [
        allow(
            f"UseKey{number}",
            sorted({action for service in those for action in _ACTIONS[service]}),
            arn,
            conditions=_through(scope, sorted(those)),
        )
        for number, (arn, those) in enumerate(services.items())
    ]


def _arn(key: kms.IKey | str) -> str:
    return key if isinstance(key, str) else key.key_arn


def _through(scope: Construct, services: list[str]) -> dict[str, dict[str, list[str]]]:
    region = Stack.of(scope).region
    names = [f"{service}.{region}.amazonaws.com" for service in services]
    return {"StringEquals": {"kms:ViaService": names}}
