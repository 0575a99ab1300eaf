"""Puts one item with its dedup record, and tries to put one without."""

import boto3
from botocore.exceptions import ClientError
from msgspec import Struct

from once import Consumer, Key, Transaction
from once.settings import Settings

consumer = Consumer("tally")
TALLIES = consumer.table("tallies")


class Tallied(Struct, frozen=True):
    id: str


@consumer.handles("verify.tallied", Tallied, key=Key.field("id"))
def tally(event: Tallied, tx: Transaction) -> None:
    tx.put(TALLIES, {"id": event.id, "answer": put_without_record(event.id)})


def put_without_record(name: str) -> str:
    """Return the answer to a put that names no dedup record; its condition is never true."""
    table = Settings.from_env().tables["tallies"].name
    try:
        boto3.client("dynamodb").put_item(
            TableName=table,
            Item={"id": {"S": f"{name}-direct"}},
            ConditionExpression="attribute_exists(id)",
        )
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "allowed"


lambda_handler = consumer.lambda_handler
