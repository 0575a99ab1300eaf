"""Puts one item with its dedup record, and tries to put one without."""

import boto3
from botocore.exceptions import ClientError
from msgspec import Struct

from once import Consumer, Key, Transaction
from once.settings import Settings

consumer = Consumer("unrecorded")
PUTS = consumer.table("puts")


class PutAsked(Struct, frozen=True):
    id: str


@consumer.handles("verify.put", PutAsked, key=Key.field("id"))
def put_with_and_without(event: PutAsked, tx: Transaction) -> None:
    tx.put(PUTS, {"id": event.id, "answer": put_without_record(event.id)})


def put_without_record(name: str) -> str:
    """Return the answer to a put that names no dedup record; its condition is never true."""
    table = Settings.from_env().tables["puts"].name
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
