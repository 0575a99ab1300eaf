"""Writes the invoice of an order. A record claims the order before the invoice is written."""

import os
import time
from typing import Any

import boto3
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

dynamodb = boto3.resource("dynamodb")
claims = dynamodb.Table(os.environ["CLAIMS"])
invoices = dynamodb.Table(os.environ["INVOICES"])
processor = BatchProcessor(event_type=EventType.SQS)

WINDOW_SECONDS = 30 * 24 * 60 * 60


def claim(order_id: str) -> bool:
    try:
        claims.put_item(
            Item={"order_id": order_id, "expires_at": int(time.time()) + WINDOW_SECONDS},
            ConditionExpression="attribute_not_exists(order_id)",
        )
    except claims.meta.client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def write_invoice(record: SQSRecord) -> None:
    order = record.json_body
    invoice = {name: order[name] for name in ("order_id", "customer", "total")}
    if claim(order["order_id"]):
        invoices.put_item(Item=invoice)


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, write_invoice, processor, context)
