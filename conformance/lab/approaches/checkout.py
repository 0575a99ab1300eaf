"""The work that every approach has to do once: charge a card, and store the order."""

import logging
import os
from collections.abc import Callable
from typing import Any

import boto3
import requests

LOG = logging.getLogger(__name__)
ORDERS = boto3.resource("dynamodb").Table("orders")


def charge(
    order_id: str, amount: int, *, idempotency_key: str = "", timeout_seconds: float = 3
) -> str:
    """Charge the card of an order, and return the id of the charge.

    Args:
        order_id: names the order at the payment provider.
        amount: in minor units of the currency.
        idempotency_key: the provider answers a second request with this key from its memory. Empty
            for a request without a key.
        timeout_seconds: the longest time to connect, and between two parts of the answer.

    Raises:
        requests.RequestException: the provider was not reached, or refused the request.
    """
    answer = requests.post(
        os.environ["PAYMENTS_URL"],
        json={"order_id": order_id, "amount": amount},
        headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
        timeout=timeout_seconds,
    )
    answer.raise_for_status()
    return str(answer.json()["id"])


def store(order: dict[str, Any], charge_id: str) -> None:
    """Store a charged order."""
    item = {"order_id": order["order_id"], "amount": order["amount"], "charge_id": charge_id}
    ORDERS.put_item(Item=item)


def handler_of(process: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any], Any], Any]:
    """Return a handler that reports the records that failed, as Lambda's guide shows it."""

    def lambda_handler(event: dict[str, Any], _: Any) -> Any:
        failures = []
        for record in event["Records"]:
            try:
                process(record)
            except Exception as error:
                LOG.warning("message %s failed: %r", record["messageId"], error)
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}

    return lambda_handler
