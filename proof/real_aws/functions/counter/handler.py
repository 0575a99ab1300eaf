"""Counts events; on request publishes one, or tries writes that its role denies."""

import json
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import ClientError
from msgspec import Struct

from once import Consumer, Transaction
from once.settings import Settings

consumer = Consumer("counter")
COUNTERS = consumer.table("counters")


class Asked(Struct, frozen=True):
    counter: str
    note: str = ""
    publishes: bool = False
    writes_directly: bool = False


class Hook(Struct, frozen=True):
    counter: str


@consumer.handles("verify.asked", Asked)
def count(event: Asked, tx: Transaction) -> None:
    if event.writes_directly:
        values = {":answers": direct_writes(event.counter), ":one": 1}
        tx.update(COUNTERS, {"id": event.counter}, "SET answers = :answers ADD amount :one", values)
        return
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :one", {":one": 1})
    if event.publishes:
        tx.publish("verify.counted", Hook(event.counter))


@consumer.handles("stripe.hook.sent", Hook)
def count_webhook(event: Hook, tx: Transaction) -> None:
    tx.update(COUNTERS, {"id": event.counter}, "ADD amount :one", {":one": 1})


def direct_writes(counter: str) -> str:
    """Return the answers to writes outside a transaction, and to one on a record of another."""
    table = Settings.from_env().tables["counters"].name
    key = {"id": {"S": f"{counter}-direct"}}
    # Its condition is never true: an answer other than a denial writes nothing either.
    foreign: Any = {
        "Put": {
            "TableName": Settings.from_env().dedup_table,
            "Item": {"pk": {"S": f"other#{counter}"}},
            "ConditionExpression": "attribute_exists(never)",
        }
    }
    dynamodb = boto3.client("dynamodb")
    answers = {
        "PutItem": _answer(lambda: dynamodb.put_item(TableName=table, Item=key)),
        "UpdateItem": _answer(lambda: dynamodb.update_item(TableName=table, Key=key)),
        "DeleteItem": _answer(lambda: dynamodb.delete_item(TableName=table, Key=key)),
        "another consumer's record": _answer(
            lambda: dynamodb.transact_write_items(TransactItems=[foreign])
        ),
    }
    return json.dumps(answers)


def _answer(call: Callable[[], object]) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "allowed"


lambda_handler = consumer.lambda_handler
