"""The end-to-end measurement, without an embedded AWS."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import embedded
from benchmarks.checks import Wrong
from benchmarks.deployed.names import GROUPED, NAMES, RAW
from tests.benchmarks.test_report import KEYS


class Aws:
    """Queue, table and log of an embedded AWS that stores a share of the messages."""

    def __init__(self, stored: float = 1.0, left: int = 0) -> None:
        self.bodies: list[str] = []
        self._stored, self._left = stored, left
        self.child = SimpleNamespace(failure=lambda what: f"MiniStack {what}: cannot import")

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
        consumer=lambda name: SimpleNamespace(queue_url=name), table=lambda name: name
    )
    return embedded.Bench(aws, parts)  # type: ignore[arg-type]


def test_every_message_has_a_new_order() -> None:
    aws = Aws()
    running = bench(aws)
    assert running.process(RAW, 20) > 0
    running.process(GROUPED, 20)
    assert len(set(aws.bodies)) == 40


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
    walls = {name: [0.002, 0.004, 0.003] for name in NAMES} | {GROUPED: [0.001, 0.001, 0.003]}
    rows = [embedded.row(name, walls[name], walls[RAW]) for name in NAMES]
    assert all(row.keys() >= KEYS for row in rows)
    assert [row["vs_raw"] for row in rows] == [1.0, 1.0, 0.5]
    assert [row["wall_us"] for row in rows] == [3000.0, 3000.0, 1000.0]
