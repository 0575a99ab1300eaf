"""Batches: every contender handles the same batches, each time with a new client.

A sample is checked: orders, failures and requests must be right, or its figures mean nothing.
"""

import gc
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import count

from benchmarks.contenders import (
    CLAIM,
    CONTENDERS,
    ITEM,
    PLAIN,
    POWERTOOLS,
    RAW,
    RAW_DEFAULT,
    UNGROUPED,
    Contender,
    Handle,
)
from benchmarks.dynamodb import MODEL, Counts, Delay
from benchmarks.orders import Event, lambda_event, order_id
from benchmarks.rows import USUAL, Row, Sample, ratio, row_of, side_by_side, timed
from benchmarks.server import BenchServer, Seen
from once.ops.aws.clients import batches
from once.testing.events import FakeContext

TEN = 10
WARM, LEARNING = 10, 300
"""Messages before a sample: one batch, or enough for an adaptive group size to settle."""

FAST = 4
"""A contender that groups gets four times the messages; its sample would be too short otherwise."""

CONTEXT = FakeContext(900_000)
"""Lambda's maximum: no contender may run out of time."""

_VS_RAW = {
    "vs_raw": "wall_us",
    "cpu_vs_raw": "cpu_us",
    "requests_vs_raw": "requests",
    "write_units_vs_raw": "write_units",
}
"""The figures that are compared with those of the raw transaction, by the key of the ratio."""
_COUNTED = [each.name for each in fields(Counts)]


class Wrong(Exception):
    """A sample is invalid; the message names contender, setting and fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Conditions of a sample: size of a batch, and number of messages.

    `duplicates` is the share of messages whose event was committed before, `conflicts` the share
    that gets a TransactionConflict. With `redelivered`, messages have a receive count of 2.
    """

    records: int
    delay_ms: Delay
    duplicates: float = 0.0
    conflicts: float = 0.0
    redelivered: bool = False
    messages: int = 100

    @property
    def faulty(self) -> bool:
        """Whether there are duplicates or conflicts."""
        return bool(self.duplicates or self.conflicts)

    def __str__(self) -> str:
        parts = [f"{self.records} records, {self.delay_ms} ms"]
        if self.duplicates:
            kind = "redelivered" if self.redelivered else "duplicates"
            parts.append(f"{self.duplicates * 100:g} % {kind}")
        if self.conflicts:
            parts.append(f"{self.conflicts * 100:g} % conflicts")
        return ", ".join(parts)


def settings() -> Iterator[Setting]:
    """Yield every setting of `make bench`."""
    # Conflicts are drawn at every attempt: a sample with more messages varies less.
    delays: dict[Delay, tuple[int, int]] = {0: (60, 120), 5: (60, 120), MODEL: (30, 30)}
    for delay_ms, (messages, in_conflict) in delays.items():
        ten = Setting(records=TEN, delay_ms=delay_ms, messages=messages)
        yield ten
        yield from (replace(ten, duplicates=share) for share in (0.01, 0.1, 1.0))
        yield from (replace(ten, conflicts=n, messages=in_conflict) for n in (0.01, 0.05))
        yield Setting(records=100, delay_ms=delay_ms)
    yield Setting(records=100, delay_ms=5, duplicates=0.1)
    yield Setting(records=100, delay_ms=5, conflicts=0.05)
    yield Setting(records=TEN, delay_ms=5, duplicates=1.0, redelivered=True, messages=60)


def contenders_in(setting: Setting) -> Sequence[Contender]:
    """Return the contenders of a setting.

    A setting with faults has only contenders that handle them: Powertools has duplicates but no
    TransactionConflict. Slow contenders are left out if no ratio needs them.
    """
    names = {contender.name for contender in CONTENDERS}
    if setting.faulty:
        names -= {PLAIN, CLAIM, RAW_DEFAULT}
    if setting.conflicts:
        names -= {POWERTOOLS}
    if setting.faulty and setting.delay_ms == MODEL:
        names -= {UNGROUPED, ITEM}
    if setting.records > TEN:
        names -= {PLAIN, CLAIM, RAW_DEFAULT, UNGROUPED, ITEM}
    return [contender for contender in CONTENDERS if contender.name in names]


@dataclass(frozen=True, slots=True)
class Load:
    """The invocations of a sample, the number of measured messages, and all orders.

    Those `before` commit the events whose duplicates follow. The `warm` ones are not counted.
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
    warming = LEARNING if setting.faulty else setting.records

    def drawn(messages: int) -> Iterator[list[int]]:
        """Yield the orders of each batch, with the share of duplicates, no message twice in one."""
        places = range(messages)
        # Rounded at random: 1 % of fifty messages is one duplicate in every other sample.
        repeated = int(messages * setting.duplicates + chance.random())
        again = set(chance.sample(places, min(repeated, messages)))
        for batch in batches(places, setting.records):
            numbers = iter(chance.sample(known, len(again.intersection(batch))))
            yield [next(numbers) if place in again else next(new) for place in batch]

    warm, measured = [*drawn(warming if contender.groups else WARM)], [*drawn(messages)]
    receive_count = 2 if setting.redelivered else 1
    return Load(
        before=[lambda_event(batch) for batch in batches(known, setting.records)],
        warm=[lambda_event(batch, receive_count=receive_count) for batch in warm],
        measured=[lambda_event(batch, receive_count=receive_count) for batch in measured],
        messages=messages,
        orders={order_id(number) for batch in (known, *warm, *measured) for number in batch},
    )


def batch_rows(
    server: BenchServer, setting: Setting, repeats: int, taken: Callable[[], object]
) -> list[Row]:
    """Measure the contenders of a setting side by side; return a row for each.

    `taken` is called after each sample.
    """
    contenders = {contender.name: contender for contender in contenders_in(setting)}

    def sample(name: str, repeat: int) -> Sample:
        found = take(server, setting, contenders[name], seed=repeat)
        taken()
        return found

    return rows_of(setting, side_by_side(contenders, repeats, sample))


def take(server: BenchServer, setting: Setting, contender: Contender, *, seed: int) -> Sample:
    """Measure one contender once, and check what it did."""
    load = load_of(setting, contender, seed)
    server.reset()
    handle = contender.prepare(lambda service: server.client(service, contender.config))
    failed = run(handle, load.before)
    server.faults(0, conflicts=setting.conflicts, seed=seed)
    failed += run(handle, load.warm)
    server.faults(setting.delay_ms, conflicts=setting.conflicts, seed=seed)
    sample, seen, more = measured(server, handle, load.measured, load.messages)
    wrong: dict[str, Iterable[str]] = {"reported as failed": [*failed, *more]}
    if contender.exactly_once:
        wrong |= {
            "never put": load.orders - seen.orders.keys(),
            "put, and never sent": seen.orders.keys() - load.orders,
            "put more than once": [order for order, times in seen.orders.items() if times > 1],
        }
    faults = [f"{what}: {', '.join(sorted(names))}" for what, names in wrong.items() if names]
    expected = round(contender.requests * load.messages)
    if not setting.faulty and seen.counts.requests != expected:
        faults.append(f"{seen.counts.requests} requests, and it claims to need {expected}")
    if faults:
        raise Wrong(f"{contender.name}, {setting}: {'; '.join(faults)}")
    return sample


def measured(
    server: BenchServer, handle: Handle, events: Sequence[Event], messages: int
) -> tuple[Sample, Seen, list[str]]:
    """Invoke a function with each event; return its cost, the server's counts, and the failures."""
    server.count()
    gc.collect()
    failed, times = timed(lambda: run(handle, events))
    seen: Seen = server.seen()
    costs = {**times, **asdict(seen.counts)}
    return {name: cost / messages for name, cost in costs.items()}, seen, failed


def run(handle: Handle, events: Iterable[Event]) -> list[str]:
    """Invoke a function with each event; return the messages that it reports as failed."""
    answers = [handle(event, CONTEXT) for event in events]
    return [
        failure["itemIdentifier"] for answer in answers for failure in answer["batchItemFailures"]
    ]


def rows_of(setting: Setting, samples: dict[str, list[Sample]]) -> list[Row]:
    """Return the rows of a setting, one for each contender."""
    raw, powertools = samples.get(RAW), samples.get(POWERTOOLS)
    return [
        row_of(
            name,
            own,
            *("wall_us", "cpu_us", *_COUNTED),
            **{field: getattr(setting, field) for field in USUAL},
            **{key: ratio(own, raw, figure) for key, figure in _VS_RAW.items()},
            vs_powertools=ratio(own, powertools, "wall_us"),
        )
        for name, own in samples.items()
    ]
