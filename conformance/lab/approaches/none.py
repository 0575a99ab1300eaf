"""No idempotency: the consumer as the queue's tutorials show it.

Advised by: Lambda's developer guide, "Using Lambda with Amazon SQS", as a first example.
Promises: failed messages come back, the others are not processed again with them.
Leaves out, as the same guide says: Lambda processes each message at least once, so the same message
may be processed twice; it recommends to make the function idempotent.
"""

import json
from typing import Any

from lab.approaches.checkout import charge, handler_of, store


def process(record: dict[str, Any]) -> None:
    """Charge the card and store the order."""
    order = json.loads(record["body"])
    store(order, charge(order["order_id"], order["amount"]))


lambda_handler = handler_of(process)
