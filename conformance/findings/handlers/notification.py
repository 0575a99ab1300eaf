"""Publishes each message of a FIFO queue to an SNS topic."""

from findings.handlers.repositories import SERVERLESS_PATTERNS, SERVERLESS_PATTERNS_COMMIT
from findings.public_handler import PublicHandler
from redelivery import Subject

_PATTERN = "apigw-http-api-fifo-sqs-lambda-sns-sam"

HANDLER = PublicHandler(
    name="FIFO to SNS",
    repository=SERVERLESS_PATTERNS,
    commit=SERVERLESS_PATTERNS_COMMIT,
    path=f"{_PATTERN}/src/app.py",
    licence="MIT-0",
    package=(f"{_PATTERN}/src",),
    subject=Subject(
        handler="app.lambda_handler",
        events=({"messagegroup": "a", "text": "first"}, {"messagegroup": "b", "text": "second"}),
        environment={"TOPIC_ARN": "{topic:notifications}"},
        topics=("notifications",),
        fifo=True,
        batch_failures=False,
        timeout_seconds=3,
        visibility_seconds=300,
        skip=("in-parallel",),  # the function ends long before its messages are visible again
    ),
)
