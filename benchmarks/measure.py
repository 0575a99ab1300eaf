"""Samples: every repeat runs all contenders in turn, each with a new client."""

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.checks import check
from benchmarks.contenders import Contender
from benchmarks.contenders.base import Handle
from benchmarks.loads import load_of
from benchmarks.matrix import Setting, contenders_in
from benchmarks.orders import Event
from benchmarks.running import BenchServer
from once.testing.events import FakeContext

_CONTEXT = FakeContext(900_000)
"""Lambda's maximum: no contender may run out of time."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Mean cost of one message for a contender. Times are in microseconds."""

    wall_us: float
    cpu_us: float
    requests: float
    write_units: float
    write_units_least: float
    read_units: float


Samples = dict[str, list[Sample]]
"""Samples by contender, one for each repeat."""


def samples_of(
    server: BenchServer, setting: Setting, repeats: int, taken: Callable[[], None]
) -> Samples:
    """Measure every contender of a setting; `taken` is called after each sample.

    Raises:
        Wrong: a sample is invalid.
    """
    contenders = contenders_in(setting)
    samples: Samples = {contender.name: [] for contender in contenders}
    for repeat in range(repeats):
        first = repeat % len(contenders)
        # Each repeat begins with another contender, so that other load on the machine affects all.
        for contender in (*contenders[first:], *contenders[:first]):
            samples[contender.name].append(take(server, setting, contender, seed=repeat))
            taken()
    return samples


def take(server: BenchServer, setting: Setting, contender: Contender, *, seed: int) -> Sample:
    """Measure one contender once.

    Raises:
        Wrong: the sample is invalid.
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
    check(setting, contender, load, seen, failed)
    counts = seen.counts
    return Sample(
        wall_us=wall / load.messages * 1e6,
        cpu_us=cpu / load.messages * 1e6,
        requests=counts.requests / load.messages,
        write_units=counts.write_units / load.messages,
        write_units_least=counts.write_units_least / load.messages,
        read_units=counts.read_units / load.messages,
    )


def _run(handle: Handle, events: Iterable[Event]) -> list[str]:
    answers = [handle(event, _CONTEXT) for event in events]
    return [
        failure["itemIdentifier"] for answer in answers for failure in answer["batchItemFailures"]
    ]
