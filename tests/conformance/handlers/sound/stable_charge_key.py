"""Charges an order and stores the payment. The Idempotency-Key is made of the order's id."""

import os
from typing import Any

import boto3
import requests
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
    request = {"amount": order["amount"], "card": order["card"]}
    # The provider forgets a key after a day. The stored payment is remembered longer.
    found = payments.get_item(Key={"order_id": order["order_id"]}, ConsistentRead=True)
    if "Item" in found:
        if found["Item"]["request"] != request:
            raise ValueError(f"{order['order_id']} was charged with another content")
        return
    answer = requests.post(
        os.environ["PAYMENTS_API"] + "/charges",
        json=request,
        headers={"Idempotency-Key": f"charge-{order['order_id']}"},
        timeout=10,
    )
    answer.raise_for_status()
    payments.put_item(
        Item={
            "order_id": order["order_id"],
            "request": request,
            "charge_id": answer.json()["id"],
        }
    )


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, charge, processor, context)
