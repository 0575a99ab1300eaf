"""Broken: the message is deleted before its order is stored. A crash in between loses it."""

import json
import os
from typing import Any

import boto3

dynamodb = boto3.client("dynamodb")
sqs = boto3.client("sqs")


def handler(event: dict[str, Any], _: object) -> None:
    for record in event["Records"]:
        order = json.loads(record["body"])
        sqs.delete_message(QueueUrl=os.environ["QUEUE_URL"], ReceiptHandle=record["receiptHandle"])
        dynamodb.put_item(
            TableName="orders",
            Item={"order_id": {"S": order["order_id"]}, "amount": {"N": str(order["amount"])}},
        )
