"""Batches: every contender handles the same batches, each time with a new client.

A sample is checked: orders, failures and requests must be right, or its figures mean nothing.
"""

import gc
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import count

from benchmarks.contenders import POWERTOOLS, RAW, Contender, Handle
from benchmarks.matrix import Setting, contenders_in
from benchmarks.orders import Event, lambda_event, order_id
from benchmarks.rows import USUAL, Row, middle, ratio, side_by_side
from benchmarks.server import BenchServer, Seen
from once.testing.events import FakeContext

WARM, LEARNING = 10, 300
"""Messages before a sample: one batch, or enough for an adaptive group size to settle."""

FAST = 4
"""A contender that groups gets four times the messages; its sample would be too short otherwise."""

_CONTEXT = FakeContext(900_000)
"""Lambda's maximum: no contender may run out of time."""

_SHOWN = 3


class Wrong(Exception):
    """A sample is invalid; the message names contender, setting and fault."""


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
    warming = LEARNING if setting.faulty else setting.records
    warm = _drawn(warming if contender.groups else WARM, setting, known, new, chance)
    measured = _drawn(messages, setting, known, new, chance)
    receive_count = 2 if setting.redelivered else 1
    return Load(
        before=[lambda_event(batch) for batch in before],
        warm=[lambda_event(batch, receive_count=receive_count) for batch in warm],
        measured=[lambda_event(batch, receive_count=receive_count) for batch in measured],
        messages=messages,
        orders={order_id(number) for batch in (known, *warm, *measured) for number in batch},
    )


def _drawn(
    messages: int, setting: Setting, known: list[int], new: Iterator[int], chance: random.Random
) -> list[list[int]]:
    """Return the numbers of orders by invocation, with the share of duplicates.

    No batch has the same message twice.
    """
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


@dataclass(frozen=True, slots=True)
class Sample:
    """Mean cost of one message for a contender. Times are in microseconds."""

    wall_us: float
    cpu_us: float
    requests: float
    write_units: float
    write_units_least: float
    read_units: float


def batch_rows(
    server: BenchServer, setting: Setting, repeats: int, taken: Callable[[], object]
) -> list[Row]:
    """Measure every contender of a setting; `taken` is called after each sample.

    Raises:
        Wrong: a sample is invalid.
    """
    contenders = {contender.name: contender for contender in contenders_in(setting)}

    def sample(name: str, repeat: int) -> Sample:
        found = take(server, setting, contenders[name], seed=repeat)
        taken()
        return found

    return rows_of(setting, side_by_side(list(contenders), repeats, sample))


def take(server: BenchServer, setting: Setting, contender: Contender, *, seed: int) -> Sample:
    """Measure one contender once.

    Raises:
        Wrong: a message failed, an order is missing or was put more than once, or the number of
            requests is not the claimed one.
    """
    load = load_of(setting, contender, seed)
    server.reset()
    handle = contender.prepare(lambda service: server.client(service, contender.config))
    failed = _run(handle, load.before)
    server.faults(0, conflicts=setting.conflicts, seed=seed)
    failed += _run(handle, load.warm)
    server.faults(setting.delay_ms, conflicts=setting.conflicts, seed=seed)
    server.count()
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    failed += _run(handle, load.measured)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    seen = server.seen()
    if faults := list(_faults(setting, contender, load, seen, failed)):
        raise Wrong(f"{contender.name}, {setting}: {'; '.join(faults)}")
    counts = seen.counts
    costs = (counts.requests, counts.write_units, counts.write_units_least, counts.read_units)
    return Sample(*(each / load.messages for each in (wall * 1e6, cpu * 1e6, *costs)))


def _run(handle: Handle, events: Iterable[Event]) -> list[str]:
    answers = [handle(event, _CONTEXT) for event in events]
    return [
        failure["itemIdentifier"] for answer in answers for failure in answer["batchItemFailures"]
    ]


def _faults(
    setting: Setting, contender: Contender, load: Load, seen: Seen, failed: Collection[str]
) -> Iterator[str]:
    wrong = {"reported as failed": failed}
    if contender.exactly_once:
        wrong |= {
            "never put": load.orders - seen.orders.keys(),
            "put, and never sent": seen.orders.keys() - load.orders,
            "put more than once": [order for order, times in seen.orders.items() if times > 1],
        }
    for what, names in wrong.items():
        if names:
            shown, more = sorted(names)[:_SHOWN], len(names) - _SHOWN
            yield f"{what}: {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")
    expected = round(contender.requests * load.messages)
    if not setting.faulty and seen.counts.requests != expected:
        yield f"{seen.counts.requests} requests, and it claims to need {expected}"


def rows_of(setting: Setting, samples: dict[str, list[Sample]]) -> list[Row]:
    """Return the rows of a setting, one for each contender."""
    raw, powertools = samples.get(RAW), samples.get(POWERTOOLS)
    return [
        {
            "contender": name,
            **{field: getattr(setting, field) for field in USUAL},
            "repeats": len(own),
            **{
                each.name: middle(
                    (getattr(sample, each.name) for sample in own),
                    digits=1 if each.name.endswith("_us") else 4,
                )
                for each in fields(Sample)
            },
            "vs_raw": ratio(own, raw, lambda s: s.wall_us),
            "vs_powertools": ratio(own, powertools, lambda s: s.wall_us),
            "cpu_vs_raw": ratio(own, raw, lambda s: s.cpu_us),
            "requests_vs_raw": ratio(own, raw, lambda s: s.requests),
            "write_units_vs_raw": ratio(own, raw, lambda s: s.write_units),
        }
        for name, own in samples.items()
    ]
