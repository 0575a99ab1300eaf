"""Stores the entries of an access log. An entry that cannot be stored is logged and left."""

import os
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError

logger = Logger(service="access-log")
entries = boto3.resource("dynamodb").Table(os.environ["ENTRIES"])
processor = BatchProcessor(event_type=EventType.SQS)


def store(record: SQSRecord) -> None:
    entry = record.json_body
    item = {name: entry[name] for name in ("entry_id", "user", "action")}
    try:
        entries.put_item(Item=item)
    except (BotoCoreError, ClientError):
        logger.exception("the entry is not stored", extra={"entry_id": entry["entry_id"]})


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, store, processor, context)
