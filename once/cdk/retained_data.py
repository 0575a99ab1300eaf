"""Tables, buckets and the groups of logs and schedules that outlive the deployments of code.

Each takes the stack, and the construct id that makes its logical id: under another id,
CloudFormation creates an empty one. `key` is the customer managed key that encrypts it; by default,
a key that AWS manages.
"""

from typing import Any

from aws_cdk import CfnOutput, Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from once.cdk.deployment_options import (
    STRONG,
    CustomerKey,
    DeploymentConfig,
    GlobalTables,
    imported_key,
)
from once.cdk.nag import acknowledge_finding
from once.cdk.props import TableProps, WarmThroughput, WebhookProps
from once.names import Record, StackOutput
from once.webhooks.captured_webhook import BY_TIME, CaptureAttribute
from once.webhooks.endpoint import OBJECTS


class RetainedTable(dynamodb.Table):
    """A business table: on demand, retained, protected from deletion, recoverable for 35 days.

    Its physical name is generated, so that a restored table can take the place of a damaged one.

    `props` has the table's key and warm throughput. `extra` are further arguments of
    `aws_dynamodb.Table`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        props: TableProps,
        *,
        key: CustomerKey | None = None,
        **extra: Any,
    ) -> None:
        encryption = dynamodb.TableEncryption
        super().__init__(
            scope,
            construct_id,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            # The key that AWS owns has no charge; the managed one costs a request of KMS in use.
            encryption=encryption.CUSTOMER_MANAGED if key else encryption.DEFAULT,
            encryption_key=imported_key(scope, key),
            **_retained(props),
            **extra,
        )


def _retained(props: TableProps) -> dict[str, Any]:
    """Return what every table has: its key and throughput, recovery, protection, retention."""
    partition, *sort = (
        dynamodb.Attribute(name=key, type=dynamodb.AttributeType.STRING) for key in props.keys
    )
    warm = props.warm_throughput
    return {
        "partition_key": partition,
        "sort_key": sort[0] if sort else None,
        "point_in_time_recovery_specification": dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        "deletion_protection": True,
        "removal_policy": RemovalPolicy.RETAIN,
        "warm_throughput": (
            dynamodb.WarmThroughput(
                read_units_per_second=warm.reads, write_units_per_second=warm.writes
            )
            if warm
            else None
        ),
    }


class RetainedGlobalTable(dynamodb.TableV2):
    """A business table with a replica in each Region of `regions`, each like a `RetainedTable`.

    A key is a multi-Region one of KMS, whose replicas differ in the Region of their ARNs only.
    CloudFormation cannot turn a table into a global one: it refuses the other resource type.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        props: TableProps,
        regions: GlobalTables,
        *,
        key: CustomerKey | None = None,
        **extra: Any,
    ) -> None:
        first, *others = regions.regions
        encryption, imported = dynamodb.TableEncryptionV2, imported_key(scope, key)
        if key is not None and imported is not None:
            keys = {each: key.arn.replace(f":{first}:", f":{each}:") for each in others}
            extra["encryption"] = encryption.customer_managed_key(imported, keys)
        if regions.consistency == STRONG:
            extra["multi_region_consistency"] = dynamodb.MultiRegionConsistency.STRONG
        super().__init__(
            scope,
            construct_id,
            replicas=[dynamodb.ReplicaTableProps(region=each) for each in others],
            witness_region=regions.witness,
            **{**_retained(props), **extra},
        )


class DedupTable(RetainedTable):
    """The table of dedup records, which all consumers of a deployment share.

    Under another construct id, every key is forgotten. `warm_throughput` are the request rates
    that it must serve at once: each commit writes to it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        warm_throughput: WarmThroughput | None = None,
        *,
        key: CustomerKey | None = None,
    ) -> None:
        props = TableProps(construct_id, Record.PK, warm_throughput=warm_throughput)
        super().__init__(scope, construct_id, props, key=key, stream=_BOTH_IMAGES, **_EXPIRING)


# The relay compares both images to tell a new commit from an update of its record.
_BOTH_IMAGES = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
_EXPIRING = {"time_to_live_attribute": Record.EXPIRES_AT}


class GlobalDedupTable(RetainedGlobalTable):
    """The table of dedup records, as a `DedupTable`, with a replica in each Region of `regions`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        warm_throughput: WarmThroughput | None,
        regions: GlobalTables,
        **options: Any,
    ) -> None:
        props = TableProps(construct_id, Record.PK, warm_throughput=warm_throughput)
        options |= {"dynamo_stream": _BOTH_IMAGES, **_EXPIRING}
        super().__init__(scope, construct_id, props, regions, **options)


_LISTED = (
    *(CaptureAttribute.ENDPOINT, CaptureAttribute.PROFILE, CaptureAttribute.STANDING),
    *(CaptureAttribute.WEBHOOK_ID, CaptureAttribute.WEBHOOK_TYPE, CaptureAttribute.EVENT_TYPE),
    *(CaptureAttribute.VERIFIED, CaptureAttribute.METHOD, CaptureAttribute.PATH),
    *(CaptureAttribute.HEADERS, CaptureAttribute.BODY_OBJECT, CaptureAttribute.BODY_BYTES),
    *(CaptureAttribute.BODY_SHA256, CaptureAttribute.EXPIRES_AT),
    *(CaptureAttribute.CONFLICT, CaptureAttribute.CONFLICTS_WITH),
)
"""The attributes in the index: all but the body, so that a list of captures reads no bodies."""


class CaptureTable(RetainedTable):
    """The table of captures: what a webhook ingress has received, with an index by time of receipt.

    It is retained like a business table. Captures expire by DynamoDB's time to live.
    """

    def __init__(self, scope: Construct, construct_id: str, **extra: Any) -> None:
        super().__init__(
            scope,
            construct_id,
            TableProps(construct_id, CaptureAttribute.PK),
            time_to_live_attribute=CaptureAttribute.EXPIRES_AT,
            **extra,
        )
        text, number = dynamodb.AttributeType.STRING, dynamodb.AttributeType.NUMBER
        self.add_global_secondary_index(
            index_name=BY_TIME,
            partition_key=dynamodb.Attribute(name=CaptureAttribute.DAY, type=text),
            sort_key=dynamodb.Attribute(name=CaptureAttribute.RECEIVED_AT, type=number),
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=list(_LISTED),
        )


WINDOWS = 2
"""Dedup windows for which an object is kept: an event may be published again until its record
expires, and its message then stays in queues for less than one more window."""


class ClaimBucket(s3.Bucket):
    """The bucket for large data of events: retained, encrypted, for TLS only, closed to the public.

    Objects expire after twice the dedup window, and the bodies of captures with the captures.
    `config` is the deployment, by default that of the CDK context; `webhooks` the ingress that
    stores large bodies here, if there is one.
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
        options = _bucket_options(scope, config.keys.buckets)
        super().__init__(scope, construct_id, lifecycle_rules=rules, **options)
        acknowledge_finding(
            self,
            "AwsSolutions-S1",
            "Each object is named in the message or the record of its event: an access log would "
            "add nothing.",
        )


class RelayFailures(s3.Bucket):
    """The bucket for failed batches of the relay: retained, encrypted, closed to the public."""

    def __init__(
        self, scope: Construct, construct_id: str, *, key: CustomerKey | None = None
    ) -> None:
        super().__init__(scope, construct_id, **_bucket_options(scope, key))
        acknowledge_finding(
            self,
            "AwsSolutions-S1",
            "Only Lambda writes there and only an operator reads: an access log would add nothing.",
        )


def _bucket_options(scope: Construct, key: CustomerKey | None) -> dict[str, Any]:
    encryption = s3.BucketEncryption
    return {
        "encryption": encryption.KMS if key else encryption.S3_MANAGED,
        "encryption_key": imported_key(scope, key),
        "bucket_key_enabled": True if key else None,
        "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
        "enforce_ssl": True,
        "removal_policy": RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    }


class ScheduleGroup(scheduler.CfnScheduleGroup):
    """The schedule group of the due events that wait: retained, with its name as output.

    AWS deletes a group with all its schedules. Its name is generated, so that a retained group does
    not stand in the way of the next one.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        about = "group of the schedules by which due events are published"
        CfnOutput(scope, StackOutput.SCHEDULE_GROUP, value=self.ref, description=about)


class OperatorLog(logs.LogGroup):
    """The log group of the operator's command line: retained, kept for a year, with its output.

    Every change that an operator makes is written there, and the command line changes nothing while
    it cannot write. Its name is generated, so that a retained log group does not stand in the way
    of the next deployment.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, key: CustomerKey | None = None
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            encryption_key=imported_key(scope, key),
            retention=logs.RetentionDays.ONE_YEAR,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        about = "log of the changes that operators make"
        CfnOutput(scope, StackOutput.OPERATOR_LOG, value=self.log_group_name, description=about)
