"""Telemetry of a consumer: received by a collector, and never in the way of a message."""

from collections.abc import Iterator
from typing import Any

import pytest

from once.events.identity import key_hash
from once.names import OTLP_ENDPOINT
from once.runtime.metrics_log import MetricsLog
from once.runtime.otlp import PAUSE_SECONDS, Telemetry
from once.testing import FakeAws
from tests.integration.collector import Collector, collector
from tests.once.support import consumer_of, note

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "a customer's name"
ATTRIBUTES = {
    *("messaging.system", "messaging.destination.name", "messaging.message.id"),
    *("once.receive_count", "once.disposition", "once.key_hash", "once.event_type"),
    *("once.error", "messaging.batch.message_count"),
}
"""All that a span may tell."""


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as running:
        monkeypatch.setenv(OTLP_ENDPOINT, running.url)
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "once-notes")
        yield running


def deliver(*events: dict[str, Any]) -> int:
    """Deliver events in one invocation; return the amount that they have counted."""
    with FakeAws(consumer_of(), {"counters": "name"}, deliveries=1) as aws:
        aws.deliver(*events, fails=None)
        return sum(item["amount"] for item in aws.items("counters"))


def facts(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_a_message_has_a_span_in_the_trace_of_its_event(received: Collector) -> None:
    event = note("a", event_id="e") | {"traceparent": f"00-{TRACE}-{PARENT}-00"}
    assert deliver(event, event) == 1
    first, second, batch = sorted(received.spans, key=lambda span: span.name == "process batch")
    assert {span.trace_id.hex() for span in (first, second)} == {TRACE}
    assert first.parent_span_id.hex() == PARENT
    assert first.links[0].span_id == batch.span_id
    told = [facts(span) for span in (first, second)]
    assert sorted(one["once.disposition"] for one in told) == ["committed", "duplicate"]
    assert {one["once.key_hash"] for one in told} == {key_hash("notes#event#/test#e")}
    assert facts(batch)["messaging.batch.message_count"] == 2


def test_the_collector_gets_the_figures_of_the_metrics_log(received: Collector) -> None:
    deliver(note("a"), note("b"))
    figures = {metric.name: metric for metric in received.metrics}
    [point] = figures["once.committed"].sum.data_points
    assert point.as_int or point.as_double == 2
    assert figures["once.commit_latency"].unit == "Milliseconds"


def test_nothing_of_a_message_is_told(received: Collector) -> None:
    broken = note(SECRET) | {"data": {"name": SECRET, "amount": SECRET}}
    deliver(note(SECRET, event_id=SECRET), broken)
    assert {key for span in received.spans for key in facts(span)} <= ATTRIBUTES
    assert SECRET not in str(received.spans) + str(received.metrics)
    failed = [span for span in received.spans if facts(span).get("once.error") == "InvalidData"]
    assert [span.status.code for span in failed] == [2]


def test_a_collector_that_refuses_or_is_gone_fails_no_message(
    received: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    received.status = 400
    assert deliver(note("a")) == 1
    monkeypatch.setenv(OTLP_ENDPOINT, "http://127.0.0.1:9")
    assert deliver(note("a")) == 1


def test_a_collector_that_hangs_delays_one_message_a_minute(received: Collector) -> None:
    received.answers.clear()
    now = [0.0]
    telemetry = Telemetry(received.url, "once-notes", clock=lambda: now[0])
    log = MetricsLog("once-notes", write=lambda line: None, telemetry=telemetry)
    for _ in range(20):
        log.report({"Committed": [1]}, 0.0)
        log.flush()
    assert len(received.requests) == 1
    now[0] = PAUSE_SECONDS
    received.answers.set()
    log.report({"Committed": [1]}, 0.0)
    log.flush()
    [point] = received.metrics[-1].sum.data_points
    assert point.as_int or point.as_double  # of the messages since then
