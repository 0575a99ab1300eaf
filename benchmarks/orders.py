"""The input of every contender: a batch of messages, each with one order."""

import json
import time
from collections.abc import Sequence
from typing import Any

from once.testing.events import cloud_event, sqs_record

EVENT_TYPE, SOURCE = "order.placed", "/shop"
BODY_BYTES = 500
QUEUE_ARN = "arn:aws:sqs:us-east-1:000000000000:bench"

SENT = str(int(time.time() * 1000))
"""In milliseconds since the epoch. The library handles old messages as on their last chance."""

Event = dict[str, Any]
"""The event of a Lambda invocation."""


def order_id(number: int) -> str:
    """Return the name of an order."""
    return f"order-{number:08}"


def body(number: int) -> str:
    """Return the message of an order: a CloudEvent of 500 bytes."""
    order = order_id(number)
    data = {
        "order_id": order,
        "customer_id": f"customer-{number % 97}",
        "currency": "EUR",
        "lines": [{"sku": f"sku-{n}", "quantity": n + 1, "unit_price": 1250} for n in range(2)],
        "note": "",
    }
    more = {"time": "2025-01-01T00:00:00Z", "datacontenttype": "application/json"}
    event = cloud_event(EVENT_TYPE, data, event_id=f"placed-{order}", source=SOURCE, **more)
    event["data"]["note"] = "x" * (BODY_BYTES - len(json.dumps(event)))
    return json.dumps(event)


def lambda_event(numbers: Sequence[int], *, receive_count: int = 1) -> Event:
    """Return the invocation that delivers these orders, in one batch."""
    attributes = {
        "ApproximateReceiveCount": str(receive_count),
        "ApproximateFirstReceiveTimestamp": "1700000000000",
        "SentTimestamp": SENT,
        "SenderId": "bench",
    }
    messages = (
        {
            "MessageId": f"message-of-{order_id(number)}",
            "ReceiptHandle": "none",
            "Body": body(number),
            "Attributes": attributes,
            "MD5OfBody": "",
        }
        for number in numbers
    )
    return {"Records": [sqs_record(message, QUEUE_ARN) for message in messages]}
