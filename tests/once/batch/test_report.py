"""Batch metrics: lines in CloudWatch's embedded metric format, for one invocation each."""

import json
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import pytest
from msgspec.structs import replace

from once.effects.declaration import Policy
from once.errors import NotDone
from once.events.identity import key_hash
from once.names import Metric
from once.runtime.otlp import MessageSpan
from once.testing import cancelled, refused
from tests.in_memory import Start
from tests.once.batch.function import (
    SECOND,
    THIRD,
    Function,
    Make,
    batch_of,
    isolated_again,
    message,
)
from tests.once.effects.provider import LEASE, Provider, Till, start_till
from tests.once.support import consumer_of, note, record

Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Read:
    """Read the metrics that were printed since the last time."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "once-notes")

    def lines() -> list[dict[str, Any]]:
        printed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        return [line for line in printed if "_aws" in line]

    return lines


def values(line: dict[str, Any]) -> dict[str, Any]:
    [metrics] = line["_aws"]["CloudWatchMetrics"]
    assert metrics["Namespace"] == Metric.NAMESPACE
    return {m["Name"]: line[m["Name"]] for m in metrics["Metrics"]}


def unit(line: dict[str, Any], metric: str) -> str:
    [metrics] = line["_aws"]["CloudWatchMetrics"]
    [found] = [m["Unit"] for m in metrics["Metrics"] if m["Name"] == metric]
    return str(found)


def dimensions(line: dict[str, Any]) -> dict[str, str]:
    [metrics] = line["_aws"]["CloudWatchMetrics"]
    [names] = metrics["Dimensions"]
    return {name: line[name] for name in names}


def test_a_batch_is_one_line_with_the_dimension_service(read: Read, function: Function) -> None:
    function.run(*batch_of("a", "b", "refuse", "later"), reports=["later"])
    [line] = read()
    assert dimensions(line) == {"service": "once-notes"}
    assert (line["level"], line["message"]) == ("INFO", "batch")
    assert line["fates"] == {"committed": 2, "refused": 1, "retried": 1}
    assert unit(line, Metric.COMMITTED) == "Count"
    assert unit(line, Metric.COMMIT_MS) == "Milliseconds"
    found = values(line)
    assert 0 < found.pop(Metric.COMMIT_MS)[0] < perf_counter() * 1000
    assert found == {
        Metric.COMMITTED: [2],
        Metric.REFUSED: [1],
        Metric.RETRIED: [1],
        Metric.GROUP_SIZE: [3],
    }


def test_quarantined_messages_are_counted_also_by_reason(read: Read, function: Function) -> None:
    function.run(record("no JSON", "m-1"), record("nor this", "m-2"), message("a"))
    total, by_reason = read()
    assert values(total)[Metric.QUARANTINED] == [2]
    assert dimensions(total) == {"service": "once-notes"}
    assert values(by_reason) == {Metric.QUARANTINED: [2]}
    assert dimensions(by_reason) == {"service": "once-notes", "reason": "unparseable"}
    function.run(message("b"))
    [line] = read()
    assert dimensions(line) == {"service": "once-notes"}
    assert Metric.QUARANTINED not in values(line)
    function.run()
    assert read() == []


def test_duplicates_are_counted_by_their_sender(read: Read, function: Function) -> None:
    lineage = {"once-lineage": {"stringValue": "m", "dataType": "String"}}
    function.seed("a")
    read()
    redelivered, redriven = message("a", **SECOND), message("a", messageAttributes=lineage)
    function.run(*[message("a")] * 3, redelivered, redelivered, redriven)
    [line] = read()
    assert values(line) == {Metric.RESENT: [3], Metric.REDELIVERED: [2], Metric.REDRIVEN: [1]}


@pytest.mark.parametrize(
    ("time", "asked", "late"),
    [
        ("2027-01-15T08:00:00.000+00:00", "2027-01-14T08:00:00.000+00:00", [90_000]),
        ("2027-01-14T08:00:00.000+00:00", "2027-01-15T08:01:00.000+00:00", [30_000]),
        ("2027-01-15T08:02:00.000+00:00", "2027-01-14T08:00:00.000+00:00", [0]),
        ("tomorrow", "2027-01-14T08:00:00.000+00:00", None),
        ("2027-01-15T08:00:00.000+00:00", None, None),
    ],
    ids=["late", "past when it was set", "clocks that differ", "no time", "no due event"],
)
def test_the_lateness_of_due_events_is_measured_at_their_commit(
    read: Read, start: Start, time: str, asked: str | None, late: list[int] | None
) -> None:
    aws = start(consumer_of(), publishers={"noted": "notes"})
    aws.time = 1_800_000_090
    event = {**note(), "source": "/once/notes", "time": time, "oncedue": asked}
    for expected in (late, None):  # the second is a duplicate
        aws.deliver({name: value for name, value in event.items() if value is not None})
        [line] = read()
        assert values(line).get(Metric.DUE_LATE_MS) == expected


def test_the_group_size_is_the_mean_of_all_requests(read: Read, make: Make) -> None:
    make(group_size=2).run(*batch_of("a", "b", "c"))
    assert values(read()[0])[Metric.GROUP_SIZE] == [1.5]


def test_isolated_messages_and_their_duplicates_are_counted(read: Read, make: Make) -> None:
    function = make(isolation=True)
    function.run(*batch_of("a", "b", **THIRD))
    assert values(read()[0]) == {Metric.ISOLATED: [2]}
    sent, _ = function.isolated()
    function.run(isolated_again(sent))
    read()
    function.run(isolated_again(sent))
    assert values(read()[0]) == {Metric.REDELIVERED: [1]}


def test_conflicts_and_messages_that_the_breaker_holds_back_are_counted(
    read: Read, function: Function
) -> None:
    function.run(message("c"), writes=[cancelled("None", "TransactionConflict")])
    assert values(read()[0])[Metric.CONFLICTS] == [1]
    assert len(function.aws.slept) == 1
    function.keep_warm()
    for name in ("a", "d"):
        denied = [refused("AccessDeniedException")]
        function.run(message(name, **THIRD), writes=denied, reports=[name])
        read()
    made = function.run(*batch_of("b", "c", **THIRD), reports=["b", "c"])
    assert made.dynamodb == []
    assert made.delays["b"] >= 120 * 4 / 2
    assert values(read()[0]) == {Metric.RETRIED: [2], Metric.BREAKER_OPEN: [2]}


def test_effects_are_counted_by_their_results(read: Read, till: Till, provider: Provider) -> None:
    events = note("a"), note("b")
    for error, metric in (
        (NotDone(), Metric.EFFECTS_NOT_DONE),
        (TimeoutError(), Metric.EFFECTS_UNANSWERED),
    ):
        provider.plan = [error] * 6
        assert not till.deliver(*events)
        assert values(read()[0])[metric] == [2]
        till.later()
    assert till.deliver(*events)
    [line] = read()
    assert values(line)[Metric.EFFECTS_DONE] == [2]
    assert values(line)[Metric.PENDING_SECONDS] == [2 * LEASE] * 2
    assert unit(line, Metric.PENDING_SECONDS) == "Seconds"


def test_effects_with_an_unknown_outcome_are_counted(
    read: Read, start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    provider.plan = [TimeoutError()] * 2
    assert till.deliver(note("a"), note("b"))
    found = values(read()[0])
    assert (found[Metric.EFFECTS_UNKNOWN], found[Metric.QUARANTINED]) == ([2], [2])


class Collector:
    """Telemetry that is kept: spans, begin and end of each invocation, and how often it is sent."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[MessageSpan], float, float]] = []
        self.sent = 0

    def count(self, *_: Any) -> None:
        """Take figures."""

    def batch(self, spans: Sequence[MessageSpan], began: float, ended: float) -> None:
        self.batches.append(([*spans], began, ended))

    def flush(self) -> None:
        self.sent += 1


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def span(
    name: str, message_id: str, disposition: str, *, carrier: Any = None, **more: Any
) -> MessageSpan:
    """Return the span of a message, whose own attributes begin with `once.`."""
    own = {"disposition": disposition, "receive_count": 1, **more}
    about = {"destination.name": "queue", "message.id": message_id, "system": "aws_sqs"}
    attributes = {
        **{f"messaging.{each}": value for each, value in about.items()},
        **{f"once.{each}": value for each, value in own.items()},
    }
    return MessageSpan(name, carrier or {}, attributes, disposition != "committed")


def test_an_invocation_sends_a_span_for_each_message(make: Make) -> None:
    function, collector = make(), Collector()
    kept: Any = collector
    metrics = replace(function.aws.runtime.metrics, telemetry=kept)
    start = int(function.aws.runtime.clock())
    times = iter(range(start, 2 * start))
    function.aws.runtime = replace(
        function.aws.runtime, metrics=metrics, clock=lambda: float(next(times))
    )
    traced = note("a", 1, "a") | {"traceparent": TRACE}
    batch = [record(json.dumps(traced), "a"), message("fail", **SECOND), record("{", "bad")]
    function.run(*batch, reports=["fail"])
    [(spans, began, ended)] = collector.batches
    assert (began, ended, collector.sent) == (start, next(times) - 1, 1)
    [pk] = [item["pk"] for item in function.aws.items("dedup")]
    hashes = [key_hash(pk.removesuffix("a") + event_id) for event_id in ("a", "fail")]
    noted: dict[str, Any] = {"event_type": "noted", "key_hash": hashes[0]}
    failed = noted | {"key_hash": hashes[1], "error": "Unexpected", "receive_count": 2}
    assert sorted(spans, key=lambda each: str(each.attributes["messaging.message.id"])) == [
        span("process noted", "a", "committed", carrier={"traceparent": TRACE}, **noted),
        span("process", "bad", "quarantined", error="Unparseable"),
        span("process noted", "fail", "retried", **failed),
    ]
