"""Stores each message as an item; the message has the item's key."""

from redelivery import Subject, Table

from findings.handlers.repositories import SERVERLESS_PATTERNS, SERVERLESS_PATTERNS_COMMIT
from findings.public_handler import PublicHandler

HANDLER = PublicHandler(
    name="event table",
    repository=SERVERLESS_PATTERNS,
    commit=SERVERLESS_PATTERNS_COMMIT,
    path="apigw-sqs-lambda-ddb/lambda/sqs-handler/index.py",
    licence="MIT-0",
    package=("apigw-sqs-lambda-ddb/lambda/sqs-handler",),
    subject=Subject(
        handler="index.lambda_handler",
        events=(
            {"eventId": "e-1", "message": "Sample message"},
            {"eventId": "e-2", "message": "Another message"},
        ),
        key="eventId",
        environment={"POWERTOOLS_TRACE_DISABLED": "true", "POWERTOOLS_LOG_LEVEL": "ERROR"},
        tables=(Table("EventTable", key="eventId"),),
        batch_failures=False,
        timeout_seconds=3,
        visibility_seconds=30,
    ),
)
