"""Traffic of a load run: orders, of which some are sent twice."""

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

from redelivery import Subject

BATCH = 10
DUPLICATES = 0.3
"""Share of the orders that are sent twice: half of them at once, half later."""

WARM, SINGLE, TWICE = "warm", "single", "twice"
"""Kinds of orders: not counted, sent once, sent twice. An order id is a kind and a number."""

_THREADS = 4
_ORDER = re.compile(rf"\b(?:{WARM}|{SINGLE}|{TWICE})-\d+\b")
_SAMPLE_ORDER = re.compile(r'"order_id": "([^"]+)"')

Batch = tuple[str, ...]
"""Order ids of messages that are sent in one call."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages, by their order ids.

    Attributes:
        orders: the distinct orders.
        first: the batches that are sent at first. The two copies of an order that is sent twice at
            once are in two consecutive batches: two invocations process them concurrently.
        later: the batches of second copies that are sent when the queue is empty.
    """

    orders: tuple[str, ...]
    first: tuple[Batch, ...]
    later: tuple[Batch, ...]

    @property
    def duplicates(self) -> int:
        """Number of second copies."""
        return sum(map(len, (*self.first, *self.later))) - len(self.orders)


def traffic(messages: int) -> Traffic:
    """Return the messages of a number of orders."""
    number = round(messages * DUPLICATES)
    at_once, later = batches(TWICE, range(0, number, 2)), batches(TWICE, range(1, number, 2))
    single = batches(SINGLE, range(messages - number))
    groups = [[batch] for batch in (*single, *later)] + [[batch, batch] for batch in at_once]
    Random(0).shuffle(groups)
    orders = tuple(order for batch in (*single, *at_once, *later) for order in batch)
    return Traffic(orders, tuple(batch for group in groups for batch in group), later)


def batches(kind: str, numbers: Sequence[int]) -> tuple[Batch, ...]:
    """Return the batches of the orders of a kind that have these numbers."""
    orders = [f"{kind}-{number}" for number in numbers]
    return tuple(tuple(orders[n : n + BATCH]) for n in range(0, len(orders), BATCH))


def body_of(subject: Subject) -> Callable[[str], str]:
    """Return a function that writes the body of an order's message, after the subject's sample."""
    sample = json.dumps(subject.events[0])
    found = _SAMPLE_ORDER.search(sample)
    if found is None:
        raise ValueError(f"no order_id in the sample {sample}")
    parts = re.split(rf"\b{re.escape(found[1])}\b", sample)
    return lambda order: order.join(parts)


def order_in(text: str) -> str:
    """Return the order id in a message or a request, whatever its form."""
    found = _ORDER.search(text)
    if found is None:
        raise ValueError(f"no order of the load run in {text[:200]!r}")
    return found.group()


def send(sqs: Any, url: str, sent: Sequence[Batch], subject: Subject) -> None:
    """Send batches concurrently, in about their order; on a FIFO queue, an order is a group.

    Raises:
        RuntimeError: SQS did not accept a message.
    """
    body = body_of(subject)

    def send_one(batch: Batch) -> None:
        entries = [
            {"Id": str(n), "MessageBody": body(order)}
            | ({"MessageGroupId": order} if subject.fifo else {})
            for n, order in enumerate(batch)
        ]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"SQS did not accept messages: {answer['Failed']}")

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(send_one, sent))
