"""A key in Redis: SET with NX and a time to live, then the work.

Advised by: articles on deduplication with Redis, such as "Message Processing Idempotency" and
"Using Redis SETNX for Distributed Request Deduplication", with a day (`redis_long`); articles on
locks for workers, such as "Preventing Duplicate Jobs with Redis Locks", with a minute
(`redis_short`): two workers that get the same job must not both do it.
Promises: a message is processed once in that time; a failed one can be tried again. A crashed
worker blocks the job only until the key expires.
Leaves out: a worker that dies with the key, duplicates after the time to live, and keys that Redis
loses in a failover. "The lock TTL must be longer than expected processing time, or duplicates can
slip in when the lock expires mid-run"; "for payment or billing workflows, persist the idempotency
key in the system of record too" (how2.sh, "How to Build Idempotent Python Workers with Redis Locks
and Retries").
"""

import json
import os
from typing import Any

import redis

from lab.approaches.checkout import charge, handler_of, store

KEYS = redis.Redis.from_url(os.environ["REDIS_URL"])
TTL_SECONDS = int(os.environ["TTL_SECONDS"])


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


lambda_handler = handler_of(process)
