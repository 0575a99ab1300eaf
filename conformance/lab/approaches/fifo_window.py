"""A FIFO queue with content-based deduplication, and a consumer without any of its own.

Advised by: SQS developer guide, "Exactly-once processing": "FIFO queues don't introduce duplicate
messages" if the producer repeats a send within the 5-minute deduplication interval.
Promises: no duplicate from the producer's retries within five minutes.
Leaves out, in its own words: sends after the interval, and a consumer that fails between its work
and the deletion of the message; the visibility timeout then makes the message available again.
After a failure the rest of the batch is reported as failed, as Lambda's guide advises for FIFO.
"""

import json
import logging
from typing import Any

from lab.approaches.checkout import charge, store

LOG = logging.getLogger(__name__)


def lambda_handler(event: dict[str, Any], _: Any) -> Any:
    """Process a batch of orders. After a failure the rest waits, to keep the order of messages."""
    records = event["Records"]
    for position, record in enumerate(records):
        try:
            order = json.loads(record["body"])
            store(order, charge(order["order_id"], order["amount"]))
        except Exception as error:
            LOG.warning("message %s failed: %r", record["messageId"], error)
            rest = records[position:]
            return {"batchItemFailures": [{"itemIdentifier": r["messageId"]} for r in rest]}
    return {"batchItemFailures": []}
