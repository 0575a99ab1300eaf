"""Writes outside the transaction, which its role denies."""

import boto3
from msgspec import Struct

from once import Consumer, Transaction
from once.settings import Settings

consumer = Consumer("rogue")
COUNTERS = consumer.table("counters")


class Asked(Struct, frozen=True):
    counter: str


@consumer.handles("rogue.asked", Asked)
def write_directly(event: Asked, tx: Transaction) -> None:
    table = Settings.from_env().tables["counters"].name
    item = {"id": {"S": event.counter}, "amount": {"N": "1"}}
    boto3.client("dynamodb").put_item(TableName=table, Item=item)


lambda_handler = consumer.lambda_handler
