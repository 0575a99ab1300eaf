"""The end-to-end measurement, without an embedded AWS."""

from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from benchmarks import embedded
from benchmarks.batches import Wrong
from benchmarks.deployed.names import GROUPED, NAMES, NOTHING, RAW
from benchmarks.embedded import EmbeddedSample, ProcessTimes
from tests.benchmarks.test_report import KEYS


class Aws:
    """Queue, table and log of an embedded AWS that stores a share of the messages."""

    def __init__(self, stored: float = 1.0, left: int = 0) -> None:
        self.bodies: list[str] = []
        self._stored, self._left = stored, left
        self.child = SimpleNamespace(
            failure=lambda what: f"MiniStack {what}: cannot import", descendants=list
        )

    def function_processes(self, function_name: str) -> list[Any]:
        return []

    def client(self, service: str) -> Any:
        return self

    def send_message_batch(self, **batch: Any) -> None:
        self.bodies += [entry["MessageBody"] for entry in batch["Entries"]]

    def get_queue_attributes(self, **_: Any) -> Any:
        names = ("", "NotVisible", "Delayed")
        return {"Attributes": {f"ApproximateNumberOfMessages{n}": self._left for n in names}}

    def get_paginator(self, operation: str) -> Any:
        pages = [{"Count": int(len(self.bodies) * self._stored)}]
        return SimpleNamespace(paginate=lambda **_: pages)


def bench(aws: Aws) -> embedded.Bench:
    parts: Any = SimpleNamespace(
        consumer=lambda name: SimpleNamespace(queue_url=name, function_name=name),
        table=lambda name: name,
    )
    return embedded.Bench(aws, parts)  # type: ignore[arg-type]


def test_every_message_has_a_new_order() -> None:
    aws = Aws()
    running = bench(aws)
    sample = running.process(RAW, 20)
    assert sample.wall_us > 0
    assert sample.cpu.sender > 0
    running.process(GROUPED, 20)
    assert len(set(aws.bodies)) == 40


def test_the_function_that_does_nothing_stores_no_order() -> None:
    assert bench(Aws(stored=0)).process(NOTHING, 20).wall_us > 0


def test_a_missing_order_makes_the_measurement_invalid() -> None:
    with pytest.raises(Wrong, match="raw, embedded: 20 orders were sent, 19 are stored"):
        bench(Aws(stored=0.95)).process(RAW, 20)


def test_a_queue_that_does_not_become_empty_is_reported_with_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "REST_SECONDS", 0)
    message = r"raw, embedded: the queues are empty: not .*\n.*cannot import"
    with pytest.raises(Wrong, match=message):
        bench(Aws(left=1)).process(RAW, 10)


def test_rows_have_the_documented_keys_and_ratios_within_a_repeat() -> None:
    walls = {name: [2000, 4000, 3000] for name in NAMES} | {GROUPED: [1000, 1000, 3000]}
    samples = {
        name: [EmbeddedSample(wall, ProcessTimes(1, 2, wall)) for wall in own]
        for name, own in walls.items()
    }
    rows = [embedded.row(name, samples) for name in NAMES]
    assert all(row.keys() >= KEYS for row in rows)
    assert [row["vs_nothing"] for row in rows] == [1.0, 1.0, 1.0, 1.0, 0.5]
    assert [row["vs_powertools"] for row in rows] == [1.0, 1.0, 1.0, 1.0, 0.5]
    assert [row["wall_us"] for row in rows] == [3000, 3000, 3000, 3000, 1000]
    assert (rows[-1]["aws_cpu_us"], rows[-1]["function_cpu_us"]) == (2, 1000)


def test_process_times_are_given_for_one_message() -> None:
    before, after = ProcessTimes(1.0, 2.0, 3.0), ProcessTimes(1.001, 2.002, 3.003)
    assert after.since(before, 10) == pytest.approx(ProcessTimes(100, 200, 300))


def test_the_processes_of_a_function_are_counted_apart() -> None:
    times = {1: SimpleNamespace(user=1.0, system=0.5), 2: SimpleNamespace(user=4.0, system=0.0)}
    worker, server = (Process(times[number]) for number in times)
    aws: Any = SimpleNamespace(
        function_processes=lambda name: [worker] if name == "f" else [],
        child=SimpleNamespace(descendants=lambda: [worker, server, Process(None)]),
    )
    found = ProcessTimes.now(aws, "f")
    assert (found.aws, found.function) == (4.0, 1.5)


class Process:
    """A process with its times; None once it has ended."""

    def __init__(self, times: Any) -> None:
        self._times = times

    def cpu_times(self) -> Any:
        if self._times is None:
            raise psutil.NoSuchProcess(1)
        return self._times
