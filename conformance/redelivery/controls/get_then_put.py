"""Broken: two invocations both find no order, and both add to the total."""

import json
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], _: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        key = {"order_id": {"S": order["order_id"]}}
        if "Item" in dynamodb.get_item(TableName="orders", Key=key, ConsistentRead=True):
            continue
        dynamodb.update_item(
            TableName="orders",
            Key=key,
            UpdateExpression="ADD amount :amount",
            ExpressionAttributeValues={":amount": {"N": str(order["amount"])}},
        )
