"""Powertools: the function that is deployed, with the bench's tables."""

from benchmarks.contenders.base import Connect, Handle
from benchmarks.deployed.powertools import powertools
from benchmarks.dynamodb import IDEMPOTENCY, KEYS, ORDERS


def idempotent_then_put(connect: Connect) -> Handle:
    """Three requests for each message: in progress, the order, done."""
    client = connect("dynamodb")
    return powertools(client, orders=ORDERS, records=IDEMPOTENCY, key=KEYS[IDEMPOTENCY])
