"""The end-to-end measurement, without an embedded AWS; and the two webhook functions."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from benchmarks import embedded, webhooks
from benchmarks.batches import Wrong
from benchmarks.contenders import Connect
from benchmarks.deployed.order import RAW
from benchmarks.deployed.verify_then_put import Handle
from benchmarks.embedded import ProcessTimes
from benchmarks.webhooks import (
    ENDPOINT,
    FUNCTIONS,
    INGRESS,
    PUT,
    Kind,
    Timing,
    WebhookSample,
    webhook_rows,
    webhook_samples,
)
from once.runtime.sdk import SDK
from tests.benchmarks.bench import MemoryServer
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


COSTS = {  # requests and write units of one webhook of 2 KB
    (PUT, Kind.GENUINE): (1, 3),
    (PUT, Kind.DUPLICATE): (1, 3),
    (PUT, Kind.FORGED): (0, 0),
    (INGRESS, Kind.GENUINE): (1, 14),
    (INGRESS, Kind.DUPLICATE): (1, 14),
    (INGRESS, Kind.FORGED): (0, 0),
}


def samples(server: MemoryServer | None = None) -> list[WebhookSample]:
    return list(webhook_samples(server or MemoryServer(), 0, pairs=4))


def test_both_functions_answer_the_same_requests_at_their_costs() -> None:
    found = samples()
    counts = {(each.function, each.kind): each.counts for each in found}
    assert {
        which: (count.requests, count.write_units)
        for which, count in counts.items()
        if count is not None
    } == COSTS
    assert {len(each.timings) for each in found} == {4}


def accepting(connect: Connect) -> Handle:
    """Answer everything, and store nothing."""
    return lambda *_: {"statusCode": 200}


def capturing_again(connect: Connect) -> Handle:
    """The plain function, but it stores duplicates as well."""
    client = connect("dynamodb")

    class Unconditional:
        def put_item(self, *, ConditionExpression: str, **put: Any) -> Any:  # noqa: N803
            return client.put_item(**put)

    return FUNCTIONS[PUT](lambda _: Unconditional())


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (accepting, "a forged webhook was answered with 200 instead of 401"),
        (capturing_again, r"48 captures were expected; 48 were put, \d+ times"),
    ],
)
def test_a_broken_function_is_detected(
    broken: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "FUNCTIONS", {**FUNCTIONS, PUT: broken})
    with pytest.raises(Wrong, match=message):
        samples()


def test_a_row_has_the_keys_of_the_report_and_ratios_within_a_pair() -> None:
    walls: dict[str, list[float]] = {PUT: [100, 1000, 200], INGRESS: [150, 1100, 600]}
    taken = [
        WebhookSample(name, kind, 5, [Timing(wall, 2 * wall) for wall in own])
        for name, own in walls.items()
        for kind in Kind
    ]
    put, ingress = (row for row in webhook_rows(taken) if row["request"] == "duplicate")
    assert put.keys() >= KEYS
    assert (ingress["vs_put"], ingress["cpu_vs_put"], put["vs_put"]) == (1.5, 1.5, 1.0)
    assert (ingress["wall_us"], ingress["p99_us"], ingress["cpu_us"]) == (600, 1090, 1200)


class WebhookAws:
    """An embedded AWS with both functions in memory, whose tables miss `lost` captures."""

    def __init__(self, lost: int = 0) -> None:
        self.bench = MemoryServer()
        self._lost = lost

    def client(self, service: str) -> Any:
        return self

    def get_function_url_config(self, **_: Any) -> Any:
        return {"FunctionUrl": PUT}

    def put_secret_value(self, **_: Any) -> None:
        pass

    def get_paginator(self, operation: str) -> Any:
        found = len(self.bench.seen().captures) // 2 - self._lost
        return SimpleNamespace(paginate=lambda **_: [{"Count": found}])

    def poster(self, _: Any, url: str) -> Handle:
        return FUNCTIONS[url](lambda service: self.bench.client(service, SDK))


@pytest.mark.parametrize("lost", [0, 1])
def test_deployed_functions_are_measured_and_checked(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws: Any = WebhookAws(lost)
    ingress: Any = SimpleNamespace(secrets={ENDPOINT: "arn"}, url=INGRESS, captures="captures")
    monkeypatch.setattr(embedded, "poster", aws.poster)
    refusal = pytest.raises(Wrong, match="23 webhooks were sent, 22 are stored")
    with refusal if lost else nullcontext():
        found = embedded.embedded_webhook_samples(aws, ingress, pairs=3)
        assert {(each.function, each.kind) for each in found} == {*COSTS}
        assert {timing.cpu_us for each in found for timing in each.timings} == {None}
