"""Get, then put: look the key up, remember it if it is new, then do the work.

Advised by: tutorials that check a table or cache for the key before they process ("if the ID
exists, skip the operation").
Promises: a message that was seen is skipped.
Leaves out: two functions that look at the same time both see nothing. Later articles name this race
and replace the two calls by a conditional put.
"""

import json
import time
from typing import Any

import boto3

from lab.approaches.checkout import charge, handler_of, store

PROCESSED = boto3.resource("dynamodb").Table("processed")
TTL_SECONDS = 24 * 60 * 60


def process(record: dict[str, Any]) -> None:
    """Charge the card and store the order, unless the order was seen before."""
    order = json.loads(record["body"])
    key = order["order_id"]
    if "Item" in PROCESSED.get_item(Key={"id": key}, ConsistentRead=True):
        return
    PROCESSED.put_item(Item={"id": key, "expires_at": int(time.time()) + TTL_SECONDS})
    try:
        store(order, charge(order["order_id"], order["amount"]))
    except Exception:
        PROCESSED.delete_item(Key={"id": key})
        raise


lambda_handler = handler_of(process)
