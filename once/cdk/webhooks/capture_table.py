"""The table of captures: what a webhook ingress has received."""

from typing import Any

from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from once.cdk.props import TableProps
from once.cdk.tables import RetainedTable
from once.webhooks.capture import BY_TIME, CaptureAttribute

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
    """The table of captures: retained like a business table, with an index by time of receipt.

    Captures expire by DynamoDB's time to live.

    Args:
        scope: the stack.
        construct_id: makes the logical id. Under another id CloudFormation creates an empty
            table.
        extra: further arguments of `aws_dynamodb.Table`.
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
