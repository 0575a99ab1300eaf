"""Pairs: each request is answered by both functions, one right after the other.

Other load on the machine then affects both alike, and each pair begins with the other function.
"""

import gc
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.checks import Wrong
from benchmarks.dynamodb import Counts
from benchmarks.latency import MODEL, Delay
from benchmarks.running import BenchServer
from benchmarks.webhooks.deployed.verify_then_put import Handle
from benchmarks.webhooks.functions import FUNCTIONS
from benchmarks.webhooks.requests import Kind, lambda_event
from once.sdk import SDK
from once.testing.events import FakeContext

DELAYS: tuple[Delay, ...] = (0, 5, MODEL)
PAIRS, WARM = 200, 20
"""Requests of each kind that each function gets in one setting, and those before them."""

_CONTEXT = FakeContext(900_000)


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of one request, in microseconds; `cpu_us` is None if it was not measured."""

    wall_us: float
    cpu_us: float | None = None


@dataclass(frozen=True, slots=True)
class WebhookSample:
    """The requests of one kind, answered by one function.

    Attributes:
        function: the function's name.
        kind: the kind of all these requests.
        delay_ms: the delay of the answers of DynamoDB, or `EMBEDDED`.
        timings: the times of the requests, in the order in which both functions got them.
        counts: what one request costs; None if it was not counted.
    """

    function: str
    kind: Kind
    delay_ms: Delay | str
    timings: Sequence[Timing]
    counts: Counts | None = None


def webhook_samples(server: BenchServer, delay_ms: Delay, pairs: int) -> Iterator[WebhookSample]:
    """Yield the samples of both functions with one delay, of every kind.

    Raises:
        Wrong: an answer has the wrong status, or a webhook is not captured exactly once.
    """
    server.reset()
    connect = partial(server.client, config=SDK)
    handles = {each.name: each.prepare(connect) for each in FUNCTIONS}
    costs = {(kind, name): _cost(server, handles[name], kind) for kind in Kind for name in handles}
    for number in range(1, WARM):
        for handle in handles.values():
            answered(handle, lambda_event(number, Kind.GENUINE), Kind.GENUINE)
    server.faults(delay_ms, conflicts=0, seed=0)
    for kind in Kind:
        events = [lambda_event(WARM + n, kind) for n in range(pairs)]
        for name, timings in pairs_of(handles, events, kind).items():
            yield WebhookSample(name, kind, delay_ms, timings, costs[kind, name])
    _check(server.seen().captures, len(handles) * (WARM + pairs))


def pairs_of(
    handles: Mapping[str, Handle], events: Sequence[dict[str, Any]], kind: Kind
) -> dict[str, list[Timing]]:
    """Return the times of each function, for the same events in the same order.

    Raises:
        Wrong: an answer has the wrong status.
    """
    timings: dict[str, list[Timing]] = {name: [] for name in handles}
    gc.collect()
    for number, event in enumerate(events):
        for name in [*handles][:: -1 if number % 2 else 1]:
            wall, cpu = time.perf_counter(), time.process_time()
            answered(handles[name], event, kind)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            timings[name].append(Timing(wall * 1e6, cpu * 1e6))
    return timings


def _cost(server: BenchServer, handle: Handle, kind: Kind) -> Counts:
    """Return the requests and units of one request; the first one opens the connection."""
    server.count()
    answered(handle, lambda_event(0, kind), kind)
    return server.seen().counts


def answered(handle: Handle, event: dict[str, Any], kind: Kind) -> None:
    """Let a function answer a request of this kind.

    Raises:
        Wrong: the answer has the wrong status.
    """
    status = handle(event, _CONTEXT)["statusCode"]
    if status != kind.status:
        raise Wrong(f"a {kind} webhook was answered with {status} instead of {kind.status}")


def _check(captures: Counter[str], expected: int) -> None:
    if len(captures) != expected or set(captures.values()) != {1}:
        puts = sum(captures.values())
        raise Wrong(f"{expected} captures were expected; {len(captures)} were put, {puts} times")
