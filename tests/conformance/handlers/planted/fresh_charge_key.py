"""Charges an order and stores the payment. Each attempt makes an Idempotency-Key of its own."""

import os
import uuid
from typing import Any

import boto3
import httpx
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

payments = boto3.resource("dynamodb").Table(os.environ["PAYMENTS"])
processor = BatchProcessor(event_type=EventType.SQS)


def charge(record: SQSRecord) -> None:
    order = record.json_body
    if "Item" in payments.get_item(Key={"order_id": order["order_id"]}, ConsistentRead=True):
        return
    answer = httpx.post(
        os.environ["PAYMENTS_API"] + "/charges",
        headers={"Idempotency-Key": str(uuid.uuid4())},
        json={"amount": order["amount"], "card": order["card"]},
    )
    answer.raise_for_status()
    payments.put_item(
        Item={"order_id": order["order_id"], "charge_id": answer.json()["id"]},
        ConditionExpression="attribute_not_exists(order_id)",
    )


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, charge, processor, context)
