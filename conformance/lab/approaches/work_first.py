"""Work first, then mark: look the key up, do the work, then remember the key.

Advised by: AWS re:Post, "How do I make my Lambda function idempotent …": extract a unique attribute
of the event, look it up in a control table, process the event if it is not there, and add it when
the work has succeeded.
Promises: an event that was processed successfully is not processed again.
Leaves out: a failure between the work and the mark, and two functions that check at the same time.
"""

import json
import time
from typing import Any

import boto3

from lab.approaches.checkout import charge, handler_of, store

PROCESSED = boto3.resource("dynamodb").Table("processed")
TTL_SECONDS = 24 * 60 * 60


def process(record: dict[str, Any]) -> None:
    """Charge the card and store the order, unless that was done before."""
    order = json.loads(record["body"])
    key = order["order_id"]
    if "Item" in PROCESSED.get_item(Key={"id": key}, ConsistentRead=True):
        return
    store(order, charge(order["order_id"], order["amount"]))
    PROCESSED.put_item(Item={"id": key, "expires_at": int(time.time()) + TTL_SECONDS})


lambda_handler = handler_of(process)
