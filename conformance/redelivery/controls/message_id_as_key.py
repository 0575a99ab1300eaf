"""Broken: the MessageId is the idempotency key, and a message sent again has a new one."""

import json
from typing import Any

import boto3
from botocore.exceptions import ClientError

dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], _: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        try:
            dynamodb.transact_write_items(TransactItems=writes(record["messageId"], order))
        except ClientError as error:
            if "ConditionalCheckFailed" not in str(error):
                raise


def writes(message_id: str, order: dict[str, Any]) -> list[Any]:
    return [
        {
            "Put": {
                "TableName": "processed",
                "Item": {"message_id": {"S": message_id}},
                "ConditionExpression": "attribute_not_exists(message_id)",
            }
        },
        {
            "Update": {
                "TableName": "orders",
                "Key": {"order_id": {"S": order["order_id"]}},
                "UpdateExpression": "ADD amount :amount",
                "ExpressionAttributeValues": {":amount": {"N": str(order["amount"])}},
            }
        },
    ]
