"""Writes outside the transaction, which its role denies."""

import json
import os

import boto3
from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("rogue")
COUNTERS = consumer.table("counters")


class Asked(Struct, frozen=True):
    counter: str


@consumer.handles("rogue.asked", Asked)
def write_directly(event: Asked, tx: Transaction) -> None:
    table = json.loads(os.environ["ONCE_TABLES"])["counters"]["name"]
    item = {"id": {"S": event.counter}, "amount": {"N": "1"}}
    boto3.client("dynamodb").put_item(TableName=table, Item=item)


lambda_handler = consumer.lambda_handler
