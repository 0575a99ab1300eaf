"""Books stock movements. One read finds those of the batch that were booked before."""

import json
import os
from typing import Any

import boto3

dynamodb = boto3.resource("dynamodb")
client = dynamodb.meta.client


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failures = []
    booked = booked_before([record["body"] for record in event["Records"]])
    for record in event["Records"]:
        try:
            movement = json.loads(record["body"])
            if movement["movement_id"] not in booked:
                book(movement)
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def booked_before(bodies: list[str]) -> set[str]:
    keys = [{"movement_id": key} for key in {movement_id(body) for body in bodies} if key]
    if not keys:
        return set()
    request = {os.environ["MOVEMENTS"]: {"Keys": keys, "ConsistentRead": True}}
    answer = dynamodb.batch_get_item(RequestItems=request)
    return {item["movement_id"] for item in answer["Responses"][os.environ["MOVEMENTS"]]}


def movement_id(body: str) -> Any:
    try:
        return json.loads(body).get("movement_id")
    except ValueError:
        return None


def book(movement: dict[str, Any]) -> None:
    stock = {
        "TableName": os.environ["STOCK"],
        "Key": {"sku": movement["sku"]},
        "UpdateExpression": "ADD available :quantity",
        "ExpressionAttributeValues": {":quantity": movement["quantity"]},
    }
    put = {"TableName": os.environ["MOVEMENTS"], "Item": movement}
    client.transact_write_items(TransactItems=[{"Put": put}, {"Update": stock}])
