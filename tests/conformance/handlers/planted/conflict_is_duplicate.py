"""Takes a sold article out of stock. A cancelled transaction counts as a duplicate."""

import json
import os
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    failed = [record["messageId"] for record in event["Records"] if not processed(record)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def processed(record: dict[str, Any]) -> bool:
    try:
        sell(**json.loads(record["body"]))
    except dynamodb.exceptions.TransactionCanceledException:
        return True  # sold before
    except Exception:
        return False
    return True


def sell(sale_id: str, sku: str, quantity: int) -> None:
    sale = {
        "TableName": os.environ["SALES"],
        "Item": {"sale_id": {"S": sale_id}, "sku": {"S": sku}, "quantity": {"N": str(quantity)}},
        "ConditionExpression": "attribute_not_exists(sale_id)",
    }
    stock = {
        "TableName": os.environ["STOCK"],
        "Key": {"sku": {"S": sku}},
        "UpdateExpression": "SET available = available - :quantity",
        "ExpressionAttributeValues": {":quantity": {"N": str(quantity)}},
    }
    dynamodb.transact_write_items(TransactItems=[{"Put": sale}, {"Update": stock}])
