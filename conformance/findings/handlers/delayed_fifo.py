"""Sends one message a minute and customer to a second FIFO queue; others stay in the first."""

from findings.handlers.repositories import SERVERLESS_PATTERNS, SERVERLESS_PATTERNS_COMMIT
from findings.public_handler import PublicHandler
from redelivery import Subject, Table

HANDLER = PublicHandler(
    name="delayed FIFO",
    repository=SERVERLESS_PATTERNS,
    commit=SERVERLESS_PATTERNS_COMMIT,
    path="sqs-fifo-delayed-queue-dynamodb/lambda/process_message.py",
    licence="MIT-0",
    package=("sqs-fifo-delayed-queue-dynamodb/lambda",),
    subject=Subject(
        handler="process_message.handler",
        events=({"customer": "c-1", "text": "first"}, {"customer": "c-2", "text": "first"}),
        key="customer",  # becomes the message group
        environment={"TABLE_NAME": "customers", "QUEUE_URL": "{queue:downstream.fifo}"},
        tables=(Table("customers", key="customer_id", ttl="ttl"),),
        queues=("downstream.fifo",),
        fifo=True,
        timeout_seconds=3,
        visibility_seconds=60,
        # The function ends long before its messages are visible again, and another message of a
        # customer is no duplicate.
        skip=("in-parallel", "other-content"),
    ),
)
