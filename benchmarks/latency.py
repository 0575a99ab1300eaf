"""Delay of the answers of the bench's DynamoDB."""

from typing import Final, Literal

Delay = float | Literal["model"]
"""A fixed number of milliseconds, or the model."""

MODEL: Final = "model"
SINGLE_MS = 7.6
TRANSACTION_MS = 23.6
ITEM_MS = 0.34
"""Medians that were measured inside Lambda and published in 2020: a put, get or update; a
transaction; each of its items. Nothing was published for BatchGetItem: it counts as one read."""


def seconds(delay: Delay, operation: str, items: int) -> float:
    """Return the delay of an answer, in seconds.

    Args:
        delay: fixed, or the model.
        operation: AWS's name, such as `PutItem`.
        items: number of items of a transaction.
    """
    if delay != MODEL:
        return delay / 1000
    if operation == "TransactWriteItems":
        return (TRANSACTION_MS + ITEM_MS * items) / 1000
    return SINGLE_MS / 1000
