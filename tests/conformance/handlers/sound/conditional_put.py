"""Stores an order under its id. An order with that id and other lines is an error."""

import json
import os
import time
import uuid
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            store(json.loads(record["body"]))
        except Exception as error:
            print(f"order not stored: {error!r}")  # noqa: T201 - it goes to CloudWatch Logs
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def store(order: dict[str, Any]) -> None:
    content = json.dumps([order["customer"], order["lines"]], sort_keys=True)
    item = {
        "order_id": {"S": order["order_id"]},
        "content": {"S": content},
        "tracking_code": {"S": uuid.uuid4().hex},
        "received_at": {"N": str(time.time())},
    }
    try:
        dynamodb.put_item(
            TableName=os.environ["ORDERS"],
            Item=item,
            ConditionExpression="attribute_not_exists(order_id)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except dynamodb.exceptions.ConditionalCheckFailedException as error:
        if error.response["Item"]["content"] != item["content"]:
            raise ValueError(f"{order['order_id']} is stored with another content") from error
