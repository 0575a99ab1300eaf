"""MessageId as the key: a conditional put of SQS's MessageId, then the work.

Advised by: many articles, such as "How to Implement Exactly-Once Processing in AWS Lambda and SQS"
and "Creating Idempotent Lambda Handlers with DynamoDB": keep the MessageId of each processed
message in a table with a time to live, and skip a message whose id is there.
Promises: a message is processed once, however often SQS delivers it.
Leaves out: SQS gives the same event a new MessageId when the producer sends it again, and when a
dead letter is redriven (SQS developer guide, "Message ID" and "dead-letter queue redrive").
"""

import json
import time
from typing import Any

import boto3

from lab.approaches.checkout import charge, handler_of, store

PROCESSED = boto3.resource("dynamodb").Table("processed")
TTL_SECONDS = 24 * 60 * 60


def process(record: dict[str, Any]) -> None:
    """Charge the card and store the order, unless this message was seen before."""
    key = record["messageId"]
    try:
        PROCESSED.put_item(
            Item={"id": key, "expires_at": int(time.time()) + TTL_SECONDS},
            ConditionExpression="attribute_not_exists(id)",
        )
    except PROCESSED.meta.client.exceptions.ConditionalCheckFailedException:
        return
    try:
        order = json.loads(record["body"])
        store(order, charge(order["order_id"], order["amount"]))
    except Exception:
        PROCESSED.delete_item(Key={"id": key})
        raise


lambda_handler = handler_of(process)
