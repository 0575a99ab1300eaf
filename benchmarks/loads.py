"""Load: the messages of one sample; contenders differ in their number only."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from benchmarks.contenders import Contender
from benchmarks.matrix import Setting
from benchmarks.orders import Event, lambda_event, order_id

WARM, LEARNING = 10, 300
"""Messages before a sample: one batch, or enough for an adaptive group size to settle."""

FAST = 4
"""A contender that groups gets four times the messages; its sample would be too short otherwise."""

Batches = list[list[int]]
"""Numbers of orders, by invocation."""


@dataclass(frozen=True, slots=True)
class Load:
    """The invocations of a sample.

    Attributes:
        before: commit the events whose duplicates follow; without delay or faults.
        warm: like the measured ones, but without delay and not counted.
        measured: the measured invocations.
        messages: number of measured messages.
        orders: all orders.
    """

    before: list[Event]
    warm: list[Event]
    measured: list[Event]
    messages: int
    orders: set[str]


def load_of(setting: Setting, contender: Contender, seed: int) -> Load:
    """Return the load of a sample; the seed decides which messages are duplicates."""
    chance, new = random.Random(seed), count()
    known = [next(new) for _ in range(2 * setting.records if setting.duplicates else 0)]
    messages = setting.messages * (FAST if contender.groups else 1)
    before = list(_batches(setting.records, known))
    warm = _drawn(_warming(setting, contender), setting, known, new, chance)
    measured = _drawn(messages, setting, known, new, chance)
    receive_count = 2 if setting.redelivered else 1
    return Load(
        before=[lambda_event(batch) for batch in before],
        warm=[lambda_event(batch, receive_count=receive_count) for batch in warm],
        measured=[lambda_event(batch, receive_count=receive_count) for batch in measured],
        messages=messages,
        orders={order_id(number) for batch in (known, *warm, *measured) for number in batch},
    )


def _warming(setting: Setting, contender: Contender) -> int:
    if not contender.groups:
        return WARM
    return LEARNING if setting.faulty else setting.records


def _drawn(
    messages: int, setting: Setting, known: list[int], new: Iterator[int], chance: random.Random
) -> Batches:
    """Return batches with the share of duplicates; no batch has the same message twice."""
    places = range(messages)
    # Rounded up or down at random: 1 % of fifty messages is one duplicate in every other sample.
    repeated = int(messages * setting.duplicates + chance.random())
    again = set(chance.sample(places, min(repeated, messages)))
    batches = []
    for batch in _batches(setting.records, places):
        numbers = iter(chance.sample(known, len(again.intersection(batch))))
        batches.append([next(numbers) if place in again else next(new) for place in batch])
    return batches


def _batches(size: int, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[start : start + size] for start in range(0, len(numbers), size))
