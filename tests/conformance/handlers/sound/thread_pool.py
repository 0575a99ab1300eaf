"""Adds deposits to balances, four messages at a time, with a record of each deposit."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3

client = boto3.resource("dynamodb").meta.client
pool = ThreadPoolExecutor(max_workers=4)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    records = event["Records"]
    succeeded = list(pool.map(deposit, [record["body"] for record in records]))
    failed = [r["messageId"] for r, ok in zip(records, succeeded, strict=True) if not ok]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def deposit(body: str) -> bool:
    try:
        add(json.loads(body))
    except client.exceptions.TransactionCanceledException as error:
        # The record of the deposit exists; other reasons are worth another attempt.
        return bool(error.response["CancellationReasons"][0]["Code"] == "ConditionalCheckFailed")
    except Exception as error:
        print(f"not deposited: {error!r}")  # noqa: T201 - it goes to CloudWatch Logs
        return False
    return True


def add(deposit: dict[str, Any]) -> None:
    record = {
        "TableName": os.environ["DEPOSITS"],
        "Item": {"deposit_id": deposit["deposit_id"]},
        "ConditionExpression": "attribute_not_exists(deposit_id)",
    }
    balance = {
        "TableName": os.environ["BALANCES"],
        "Key": {"account_id": deposit["account_id"]},
        "UpdateExpression": "ADD balance :amount",
        "ExpressionAttributeValues": {":amount": deposit["amount"]},
    }
    client.transact_write_items(TransactItems=[{"Put": record}, {"Update": balance}])
