"""The provider's idempotency key, and no record of one's own.

Advised by: Stripe's API reference, "Idempotent requests", for every request that is repeated. Here
the order id is the key, and the order is stored with a put that has the same result each time.
Promises: requests with one key and the same parameters have one effect and the same answer.
Leaves out, as the same page says: keys that are older than 24 hours; the provider may have removed
them, and then takes the request as a new one. And every effect of an event but this request.
"""

import json
from typing import Any

from lab.approaches.checkout import charge, handler_of, store


def process(record: dict[str, Any]) -> None:
    """Charge the card under the order's key, and store the order."""
    order = json.loads(record["body"])
    key = order["order_id"]
    store(order, charge(order["order_id"], order["amount"], idempotency_key=key))


lambda_handler = handler_of(process)
