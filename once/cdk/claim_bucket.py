"""The claim-check bucket, and a consumer's access to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from once.cdk._table_permissions import allow
from once.cdk.customer_keys import bucket_encryption
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.nag import acknowledge_finding, as_referenced, name_in_findings
from once.cdk.props import ConsumerProps
from once.cdk.webhooks.props import WebhookProps
from once.schema import SOURCE_PREFIX
from once.settings import PRODUCER_OBJECTS, consumer_objects
from once.webhooks.settings import OBJECTS

WINDOWS = 2
"""Dedup windows for which an object is kept: an event may be published again until its record
expires, and its message then stays in queues for less than one more window."""


class ClaimBucket(s3.Bucket):
    """The bucket for large data of events: retained, encrypted, for TLS only, closed to the public.

    Objects expire after twice the dedup window, and the bodies of captures with the captures.

    Args:
        scope: the stack.
        construct_id: makes the logical id. Under another id CloudFormation creates an empty bucket.
        config: the deployment; by default that of the CDK context.
        webhooks: the webhook ingress that stores large bodies here, if there is one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        config: DeploymentConfig | None = None,
        webhooks: WebhookProps | None = None,
    ) -> None:
        config = config or DeploymentConfig.from_context(scope.node)
        rules = [
            s3.LifecycleRule(
                expiration=Duration.days(WINDOWS * config.dedup_window_days),
                abort_incomplete_multipart_upload_after=Duration.days(1),
            )
        ]
        if webhooks is not None:  # of two rules, S3 follows the one that expires an object first
            kept = Duration.days(webhooks.capture_days)
            rules.append(s3.LifecycleRule(prefix=OBJECTS, expiration=kept))
        super().__init__(
            scope,
            construct_id,
            **bucket_encryption(scope, config.keys.buckets),
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            lifecycle_rules=rules,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        acknowledge_finding(
            self,
            "AwsSolutions-S1",
            "Each object is named in the message or the record of its event: an access log would "
            "add nothing.",
        )


@dataclass(frozen=True, slots=True)
class ClaimAccess:
    """The objects that a consumer may read and write, as patterns of keys."""

    bucket: s3.IBucket
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        props: ConsumerProps,
        bucket: s3.IBucket | None,
        sources: Mapping[str, tuple[str, ...]],
    ) -> Self | None:
        """Return the access of a consumer; None without a bucket.

        Args:
            props: the consumer.
            bucket: the claim-check bucket.
            sources: the CloudEvents sources that each of its internal events may come from.
        """
        if bucket is None:
            return None
        internal = {source for event in props.events for source in sources.get(event, ())}
        publishers = sorted(source.removeprefix(SOURCE_PREFIX) for source in internal)
        places = [PRODUCER_OBJECTS] if props.external else []
        places += map(consumer_objects, publishers)
        own = [consumer_objects(props.identity)] if props.publishes else []
        return cls(bucket, tuple(f"{p}*" for p in places), tuple(f"{p}*" for p in own))

    @classmethod
    def of_operators(cls, bucket: s3.IBucket) -> Self:
        """Return the access of operators: they look at any data, and send it as producers do."""
        return cls(bucket, ("*",), (f"{PRODUCER_OBJECTS}*",))

    def read_statements(self) -> list[iam.PolicyStatement]:
        """Return the statements that allow to read; none without an object to read."""
        if not self.reads:
            return []
        objects = map(self.bucket.arn_for_objects, self.reads)
        # Without `ListBucket`, S3 answers for a missing object as for a forbidden one.
        actions = ["s3:GetObject", "s3:ListBucket"]
        return [allow("ReadClaims", actions, *objects, self.bucket.bucket_arn)]

    def write_statements(self) -> list[iam.PolicyStatement]:
        """Return the statements that allow to store; none without a place to store."""
        objects = map(self.bucket.arn_for_objects, self.writes)
        return [allow("StoreClaims", ["s3:PutObject"], *objects)] if self.writes else []

    def acknowledge(self, role: Construct) -> None:
        """Explain the patterns in the statements of a role or a policy."""
        arn = name_in_findings(role, as_referenced(role, self.bucket.bucket_arn))
        for pattern in sorted({*self.reads, *self.writes}):
            acknowledge_finding(
                role,
                f"AwsSolutions-IAM5[Resource::{arn}/{pattern}]",
                "The keys of the objects end with an event's id and the digest of its data.",
            )
