"""The relay publishes each commit in the stream, and returns once every event is on the topic."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock, call

import pytest

from once.outbox.relay import NotRelayed, Relay
from once.runtime.sdk import SDK
from once.testing import Fault, answer_lost, inject, never_sent, refused
from tests.once.outbox.relaying import (
    THEN,
    RelayHarness,
    answered,
    batch_answer,
    change,
    image,
    outgoing,
)
from tests.once.support import calls

ONE, TWO = outgoing(0), outgoing(1)
THREE = outgoing(0, pk="notes#f")
PENDING = image(commit="pending")


def test_o1_a_relay_that_dies_between_send_and_checkpoint_publishes_the_same_events_again(
    harness: RelayHarness,
) -> None:
    records = change(image(ONE, TWO)), change(image(THREE, pk="notes#f"))
    harness.handle(*records)
    harness.handle(*records)
    assert harness.published() == [ONE.body, TWO.body, THREE.body] * 2
    line = harness.logged()[-1]
    assert (line["message"], line["published"]) == ("relayed", 3)


@pytest.mark.parametrize(
    ("new", "old", "published"),
    [
        pytest.param(image(ONE), None, True, id="a new record"),
        pytest.param(image(ONE, commit="d"), PENDING, True, id="pending turns done"),
        pytest.param(image(ONE, commit="d"), image(TWO), True, id="put over an expired record"),
        pytest.param(image(ONE), {"pk": {"S": "notes#e"}}, True, id="put over no commit"),
        pytest.param(PENDING, None, False, id="pending"),
        pytest.param(image(), None, False, id="done, without events"),
        pytest.param(image(ONE), image(ONE), False, id="changed outside a commit"),
        pytest.param(PENDING, PENDING, False, id="an effect taken over"),
        pytest.param(None, image(ONE), False, id="removed"),
        pytest.param(None, PENDING, False, id="removed while pending"),
    ],
)
def test_o5_the_commit_id_decides_what_is_published(
    harness: RelayHarness, new: Any, old: Any, *, published: bool
) -> None:
    harness.handle(change(new, old))
    assert harness.published() == ([ONE.body] if published else [])
    assert harness.dead_letters() == []


def test_o5_a_removal_by_ttl_is_not_published(harness: RelayHarness) -> None:
    ttl = {"userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"}}
    harness.handle(change(None, image(ONE)) | ttl, change(image(THREE, pk="notes#f")))
    assert harness.published() == [THREE.body]


def test_o5_a_record_removed_and_committed_anew_in_one_batch_is_published_twice(
    harness: RelayHarness,
) -> None:
    first, again = image(ONE), image(ONE, commit="d")
    harness.handle(change(first), change(None, first), change(again))
    assert harness.published() == [ONE.body] * 2


def committed(milliseconds: int, *events: Any, pk: str = "notes#e") -> dict[str, Any]:
    """A new record, committed so many milliseconds after the others."""
    time = {"committed_at": {"N": str(THEN * 1000 + milliseconds)}}
    return change(image(*events, pk=pk) | time)


UNDATED = {name: value for name, value in image(ONE).items() if name != "committed_at"}
METRICS: dict[str, Any] = {
    "a record without events does not count": (
        (committed(-9000, pk="notes#f"), committed(0, ONE)),
        [([2500.0], [1.0])],
    ),
    "a clock behind the consumer's": ((committed(60_000, ONE),), [([0.0], [1.0])]),
    "a record without its time": ((change(UNDATED),), [(None, [1.0])]),
    "pending": ((change(PENDING),), []),
    "removed": ((change(None, image(ONE)),), []),
    "unreadable": ((change(image(outbox={"S": "no JSON"})),), []),
    "refused by the topic": ((change(image(outgoing(0, 300_000))),), []),
}


def metrics(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The metrics that were written, one object for each line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]


@pytest.mark.parametrize(("records", "expected"), METRICS.values(), ids=METRICS)
def test_lag_and_number_of_published_events_are_measured(
    harness: RelayHarness, capsys: pytest.CaptureFixture[str], records: Any, expected: Any
) -> None:
    harness.handle(*records)
    found = [(line.get("RelayLag"), line["EventsPublished"]) for line in metrics(capsys)]
    assert found == expected


def test_the_lag_of_the_slowest_event_of_a_batch_is_measured_in_one_line(
    harness: RelayHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.handle(committed(0, ONE, TWO), committed(-4000, THREE, pk="notes#f"))
    [line] = metrics(capsys)
    assert line.pop("_aws")["CloudWatchMetrics"] == [
        {
            "Namespace": "Once",
            "Dimensions": [["service"]],
            "Metrics": [
                {"Name": "RelayLag", "Unit": "Milliseconds"},
                {"Name": "EventsPublished", "Unit": "Count"},
            ],
        }
    ]
    assert line == {"service": "shop-outbox_relay", "RelayLag": [6500.0], "EventsPublished": [3.0]}


def test_the_relay_of_a_function_has_its_region_and_the_sdk_settings(
    harness: RelayHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boto3.client", client := Mock())
    relay = Relay.of(harness.settings, region="eu-central-1")
    relay.sqs.list_queues()  # its client is made on first use
    made = [call(service, "eu-central-1", config=SDK) for service in ("sns", "sqs")]
    assert client.call_args_list == made
    assert relay.logger.service == "shop"


EVENTS = [outgoing(n) for n in range(3)]
BODIES = [event.body for event in EVENTS]
BATCH = change(image(*EVENTS))

CODES = ("Throttling", "AuthorizationError", "NotFound", "KMSThrottling", "InternalError")
TRANSIENT = {code: refused(code) for code in CODES} | {"timeout": never_sent()}


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
@pytest.mark.usefixtures("longest_delays")
def test_o2_a_transient_fault_is_retried_after_doubling_pauses(
    harness: RelayHarness, fault: Fault
) -> None:
    paused: list[float] = []
    harness.relay = replace(harness.relay, sleep=paused.append)
    with inject(harness.relay.sns, "PublishBatch", *[fault] * 4) as left:
        harness.handle(BATCH)
    assert left == []
    assert paused == [0.025, 0.05, 0.1, 0.2]
    assert harness.published() == BODIES
    assert harness.dead_letters() == []


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_o2_a_topic_that_takes_nothing_until_the_time_is_up_fails_the_batch(
    harness: RelayHarness, fault: Fault
) -> None:
    with (
        inject(harness.relay.sns, "PublishBatch", *[fault] * 1000),
        pytest.raises(NotRelayed, match="3 events are not published: "),
    ):
        harness.handle(BATCH)
    assert harness.context.remaining_ms >= harness.settings.time_margin_ms
    assert harness.published() == []
    assert harness.dead_letters() == []
    assert "relayed" not in harness.stream.getvalue()


def test_o2_a_batch_that_failed_is_published_when_it_comes_again(harness: RelayHarness) -> None:
    harness.context.remaining_ms = harness.settings.time_margin_ms  # one attempt, no pause
    with (
        inject(harness.relay.sns, "PublishBatch", never_sent()) as left,
        pytest.raises(NotRelayed, match="ReadTimeoutError"),
    ):
        harness.handle(BATCH)
    assert left == []
    harness.handle(BATCH)
    assert harness.published() == BODIES


def test_o2_events_are_published_again_unchanged_after_a_lost_answer(harness: RelayHarness) -> None:
    with inject(harness.relay.sns, "PublishBatch", answer_lost()) as left:
        harness.handle(BATCH)
    assert left == []
    assert harness.published() == BODIES * 2


def test_o6_of_a_batch_that_half_fails_under_http_200_only_the_failed_are_sent_again(
    harness: RelayHarness,
) -> None:
    half = batch_answer(taken="1", throttled="0")
    with answered(harness.relay.sns, half, {}) as left, calls(harness.relay.sns) as made:
        harness.handle(BATCH)
    assert left == []
    sent = [[e["Message"] for e in p["PublishBatchRequestEntries"]] for _, p in made]
    failed = [BODIES[0], BODIES[2]]
    assert sent == [BODIES, failed, failed]
    assert harness.published() == failed


@pytest.mark.parametrize(
    ("first", "waiting"),
    [
        (batch_answer(taken="0", throttled="12"), 2),
        (batch_answer(taken="2", refused="0", throttled="1"), 1),
    ],
    ids=["beside a published event", "beside a refused event"],
)
def test_o6_the_error_counts_the_events_that_stay_throttled(
    harness: RelayHarness, first: dict[str, Any], waiting: int
) -> None:
    with (
        answered(harness.relay.sns, first, *[batch_answer(throttled="01")] * 1000),
        pytest.raises(NotRelayed, match=f"^{waiting} events are not published: Throttled"),
    ):
        harness.handle(BATCH)
