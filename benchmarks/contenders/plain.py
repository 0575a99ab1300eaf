"""Two ways without a transaction: no protection at all, and a claim before the effect."""

import json
import time
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.contenders.base import NAME, Connect, Handle, settings
from benchmarks.deployed.item import serialized
from benchmarks.dynamodb import DEDUP, ORDERS
from benchmarks.orders import Event
from once.testing.events import FakeContext


def put(connect: Connect) -> Handle:
    """One put for each message: a duplicate overwrites."""
    client = connect("dynamodb")

    def handle(event: Event, _: FakeContext) -> Any:
        for record in event["Records"]:
            data = json.loads(record["body"])["data"]
            client.put_item(TableName=ORDERS, Item=serialized(data))
        return {"batchItemFailures": []}

    return handle


def claim_then_put(connect: Connect) -> Handle:
    """A claim, then the put: an order is lost if the function dies between the two."""
    client = connect("dynamodb")

    def handle(event: Event, _: FakeContext) -> Any:
        for record in event["Records"]:
            message = json.loads(record["body"])
            if _claimed(client, f"{NAME}#{message['source']}#{message['id']}"):
                client.put_item(TableName=ORDERS, Item=serialized(message["data"]))
        return {"batchItemFailures": []}

    return handle


def _claimed(client: Any, key: str) -> bool:
    now = int(time.time())
    expires = now + settings().dedup_window_seconds
    try:
        client.put_item(
            TableName=DEDUP,
            Item={"pk": {"S": key}, "expires_at": {"N": str(expires)}},
            ConditionExpression="attribute_not_exists(pk) OR expires_at < :now",
            ExpressionAttributeValues={":now": {"N": str(now)}},
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return False
    return True
