"""Adds hours to a project. The item holds the ids of the time sheets that were added to it."""

import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

projects = boto3.resource("dynamodb").Table(os.environ["PROJECTS"])
processor = BatchProcessor(event_type=EventType.SQS)


def add_hours(record: SQSRecord) -> None:
    sheet = record.json_body
    try:
        projects.update_item(
            Key={"project": sheet["project"]},
            UpdateExpression="ADD hours :hours, sheets :sheets",
            ConditionExpression="NOT contains(sheets, :sheet)",
            ExpressionAttributeValues={
                ":hours": sheet["hours"],
                ":sheet": sheet["sheet_id"],
                ":sheets": {sheet["sheet_id"]},
            },
        )
    except projects.meta.client.exceptions.ConditionalCheckFailedException:
        return  # added before


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, add_hours, processor, context)
