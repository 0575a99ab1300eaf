"""How long the bench's DynamoDB takes to answer."""

from typing import Final, Literal

Delay = float | Literal["model"]
"""A fixed number of milliseconds, or the model."""

MODEL: Final = "model"
SINGLE_MS = 7.6
TRANSACTION_MS = 23.6
ITEM_MS = 0.34
"""Medians published in 2020, measured inside Lambda: one put, get or update; a transaction; and
what each of its items adds. Nothing was published for BatchGetItem: it is taken for one read."""


def seconds(delay: Delay, operation: str, items: int) -> float:
    """Return how long an answer takes, in seconds.

    Args:
        delay: fixed, or the model.
        operation: as AWS spells it, such as `PutItem`.
        items: how many a transaction has.
    """
    if delay != MODEL:
        return delay / 1000
    if operation == "TransactWriteItems":
        return (TRANSACTION_MS + ITEM_MS * items) / 1000
    return SINGLE_MS / 1000
