"""Sound: the condition on the item itself makes every further delivery a duplicate."""

import json
from typing import Any

import boto3
from botocore.exceptions import ClientError

dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            store(json.loads(record["body"]))
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def store(order: dict[str, Any]) -> None:
    try:
        dynamodb.put_item(
            TableName="orders",
            Item={"order_id": {"S": order["order_id"]}, "amount": {"N": str(order["amount"])}},
            ConditionExpression="attribute_not_exists(order_id)",
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        found = dynamodb.get_item(
            TableName="orders", Key={"order_id": {"S": order["order_id"]}}, ConsistentRead=True
        )
        if found["Item"]["amount"]["N"] != str(order["amount"]):
            raise ValueError("another order has this id") from error
