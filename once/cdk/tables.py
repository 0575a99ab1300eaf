"""DynamoDB tables that outlive the deployments of code."""

from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from once.cdk.customer_keys import CustomerKey, imported_key
from once.cdk.props import TableProps, WarmThroughput
from once.schema import Record


class RetainedTable(dynamodb.Table):
    """A business table: on demand, retained, protected from deletion, recoverable for 35 days.

    Its physical name is generated, so that a restored table can take the place of a damaged one.

    Args:
        scope: the stack.
        construct_id: makes the logical id. Under another id CloudFormation creates an empty
            table.
        props: the table's key and warm throughput.
        key: the customer managed key that encrypts it; by default the key that AWS manages.
        extra: further arguments of `aws_dynamodb.Table`.
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
        partition, *sort = (
            dynamodb.Attribute(name=key, type=dynamodb.AttributeType.STRING) for key in props.keys
        )
        warm = props.warm_throughput
        super().__init__(
            scope,
            construct_id,
            partition_key=partition,
            sort_key=sort[0] if sort else None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=_encryption(key),
            encryption_key=imported_key(scope, key),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
            warm_throughput=None if warm is None else _units(warm),
            **extra,
        )


class DedupTable(RetainedTable):
    """The table of dedup records, which all consumers of a deployment share.

    Args:
        scope: the stack.
        construct_id: makes the logical id. Under another id CloudFormation creates an empty
            table, and every key is forgotten.
        warm_throughput: the request rates that it must serve at once. Each commit writes to it.
        key: the customer managed key that encrypts it; by default the key that AWS manages.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        warm_throughput: WarmThroughput | None = None,
        *,
        key: CustomerKey | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            TableProps(construct_id, Record.PK, warm_throughput=warm_throughput),
            key=key,
            time_to_live_attribute=Record.EXPIRES_AT,
            # The relay compares both images to tell a new commit from an update of its record.
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
        )


def _encryption(key: CustomerKey | None) -> dynamodb.TableEncryption:
    encryption = dynamodb.TableEncryption
    return encryption.CUSTOMER_MANAGED if key else encryption.AWS_MANAGED


def _units(warm: WarmThroughput) -> dynamodb.WarmThroughput:
    return dynamodb.WarmThroughput(
        read_units_per_second=warm.reads, write_units_per_second=warm.writes
    )
