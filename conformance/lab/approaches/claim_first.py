"""Claim first, then work: a conditional put of the business key, then the charge and the order.

Advised by: articles on DynamoDB's conditional writes, such as "Atomic Idempotency Patterns with
DynamoDB Conditional Writes for SQS Consumers" (devtechtools.org): the table "acts as a distributed
lock and a record of execution".
Promises: of two functions with one key, only one does the work.
Leaves out: a function that dies between the claim and the end of its work leaves a claim without
work. The more careful articles say so and add a status with an expiry; `powertools_advised` is
that form.
"""

import json
import time
from typing import Any

import boto3

from lab.approaches.checkout import charge, handler_of, store

CLAIMS = boto3.resource("dynamodb").Table("processed")
TTL_SECONDS = 24 * 60 * 60


def process(record: dict[str, Any]) -> None:
    """Charge the card and store the order, if this function gets the claim."""
    order = json.loads(record["body"])
    key = order["order_id"]
    try:
        CLAIMS.put_item(
            Item={"id": key, "expires_at": int(time.time()) + TTL_SECONDS},
            ConditionExpression="attribute_not_exists(id)",
        )
    except CLAIMS.meta.client.exceptions.ConditionalCheckFailedException:
        return  # a duplicate
    try:
        store(order, charge(order["order_id"], order["amount"]))
    except Exception:
        CLAIMS.delete_item(Key={"id": key})  # the next delivery may claim again
        raise


lambda_handler = handler_of(process)
