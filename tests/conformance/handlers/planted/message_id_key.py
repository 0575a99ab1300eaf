"""Adds the points of a purchase to an account. The MessageId is the idempotency key."""

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

dynamodb = boto3.client("dynamodb")
processor = BatchProcessor(event_type=EventType.SQS)

WINDOW_SECONDS = 30 * 24 * 60 * 60


def add_points(record: SQSRecord) -> None:
    purchase = record.json_body
    expires_at = str(int(time.time()) + WINDOW_SECONDS)
    processed = {"id": {"S": record.message_id}, "expires_at": {"N": expires_at}}
    points = {
        "TableName": os.environ["ACCOUNTS"],
        "Key": {"account_id": {"S": purchase["account_id"]}},
        "UpdateExpression": "ADD points :points",
        "ExpressionAttributeValues": {":points": {"N": str(purchase["points"])}},
    }
    once = {
        "TableName": os.environ["PROCESSED"],
        "Item": processed,
        "ConditionExpression": "attribute_not_exists(id)",
    }
    try:
        dynamodb.transact_write_items(TransactItems=[{"Put": once}, {"Update": points}])
    except dynamodb.exceptions.TransactionCanceledException as error:
        if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
            raise


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, add_points, processor, context)
