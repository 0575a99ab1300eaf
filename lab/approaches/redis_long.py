"""A key in Redis: SET with NX and a time to live of a day, then the work.

Advised by: articles on deduplication with Redis, such as "Message Processing Idempotency" and
"Using Redis SETNX for Distributed Request Deduplication".
Promises: a message is processed once in 24 hours; a failed one can be tried again.
Leaves out: a worker that dies with the key, duplicates after the time to live, and keys that Redis
loses in a failover. "For payment or billing workflows, persist the idempotency key in the system of
record too" (how2.sh, "How to Build Idempotent Python Workers with Redis Locks and Retries").
"""

import json
import os
from typing import Any

import redis

from lab.approaches.checkout import charge, process_batch, store

KEYS = redis.Redis.from_url(os.environ["REDIS_URL"])
TTL_SECONDS = 24 * 60 * 60


def process(record: dict[str, Any]) -> None:
    """Charge the card and store the order, unless another worker has the key."""
    order = json.loads(record["body"])
    key = f"order:{order['order_id']}"
    if not KEYS.set(key, "processing", nx=True, ex=TTL_SECONDS):
        return
    try:
        store(order, charge(order["order_id"], order["amount"]))
    except Exception:
        KEYS.delete(key)
        raise


def lambda_handler(event: dict[str, Any], _: Any) -> Any:
    """Process a batch of orders."""
    return process_batch(event, process)
