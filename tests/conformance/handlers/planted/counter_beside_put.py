"""Registers a user, then counts the registrations of the day: two calls, no transaction."""

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
from boto3.dynamodb.conditions import Attr

dynamodb = boto3.resource("dynamodb")
users = dynamodb.Table(os.environ["USERS"])
statistics = dynamodb.Table(os.environ["STATISTICS"])
processor = BatchProcessor(event_type=EventType.SQS)


def register(record: SQSRecord) -> None:
    user = record.json_body
    item = {name: user[name] for name in ("user_id", "email", "day")}
    try:
        users.put_item(Item=item, ConditionExpression=Attr("user_id").not_exists())
    except users.meta.client.exceptions.ConditionalCheckFailedException:
        return  # registered before
    statistics.update_item(
        Key={"day": user["day"]},
        UpdateExpression="ADD registrations :one",
        ExpressionAttributeValues={":one": 1},
    )


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, register, processor, context)
