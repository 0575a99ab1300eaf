"""A lock in Redis: SET with NX and a time to live of a minute, then the work.

Advised by: articles on locks for workers, such as "Preventing Duplicate Jobs with Redis Locks":
two workers that get the same job must not both do it.
Promises: of two workers at the same time, one does the job; a crashed worker blocks it only until
the lock expires.
Leaves out: duplicates after the lock has expired. "The lock TTL must be longer than expected
processing time, or duplicates can slip in when the lock expires mid-run" (how2.sh, "How to Build
Idempotent Python Workers with Redis Locks and Retries").
"""

import json
import os
from typing import Any

import redis

from lab.approaches.checkout import charge, process_batch, store

KEYS = redis.Redis.from_url(os.environ["REDIS_URL"])
TTL_SECONDS = 60


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
