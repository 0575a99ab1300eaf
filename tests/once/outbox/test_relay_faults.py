"""The relay returns once every event is on the topic, and raises while one is not."""

from dataclasses import replace
from typing import Any

import pytest

from once.outbox.stream_relay import NotRelayed
from once.testing import Fault, answer_lost, inject, never_sent, refused
from tests.once.outbox.relaying import Station, answered, batch_answer, change, image, outgoing
from tests.once.support import calls

EVENTS = [outgoing(n) for n in range(3)]
BODIES = [event.body for event in EVENTS]
BATCH = change(image(*EVENTS))

CODES = ("Throttling", "AuthorizationError", "NotFound", "KMSThrottling", "InternalError")
TRANSIENT = {code: refused(code) for code in CODES} | {"timeout": never_sent()}


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
@pytest.mark.usefixtures("longest_delays")
def test_o2_a_transient_fault_is_retried_after_doubling_pauses(
    station: Station, fault: Fault
) -> None:
    paused: list[float] = []
    station.relay = replace(station.relay, sleep=paused.append)
    with inject(station.relay.sns, "PublishBatch", *[fault] * 4) as left:
        station.handle(BATCH)
    assert left == []
    assert paused == [0.025, 0.05, 0.1, 0.2]
    assert station.heard() == BODIES
    assert station.dead_letters() == []


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_o2_a_topic_that_takes_nothing_until_the_time_is_up_fails_the_batch(
    station: Station, fault: Fault
) -> None:
    with (
        inject(station.relay.sns, "PublishBatch", *[fault] * 1000),
        pytest.raises(NotRelayed, match="3 events are not published: "),
    ):
        station.handle(BATCH)
    assert station.context.remaining_ms >= station.settings.time_margin_ms
    assert station.heard() == []
    assert station.dead_letters() == []
    assert "relayed" not in station.stream.getvalue()


def test_o2_a_batch_that_failed_is_published_when_it_comes_again(station: Station) -> None:
    station.context.remaining_ms = station.settings.time_margin_ms  # one attempt, no pause
    with (
        inject(station.relay.sns, "PublishBatch", never_sent()) as left,
        pytest.raises(NotRelayed, match="ReadTimeoutError"),
    ):
        station.handle(BATCH)
    assert left == []
    station.handle(BATCH)
    assert station.heard() == BODIES


def test_o2_events_are_published_again_unchanged_after_a_lost_answer(station: Station) -> None:
    with inject(station.relay.sns, "PublishBatch", answer_lost()) as left:
        station.handle(BATCH)
    assert left == []
    assert station.heard() == BODIES * 2


def test_o6_of_a_batch_that_half_fails_under_http_200_only_the_failed_are_sent_again(
    station: Station,
) -> None:
    half = batch_answer(taken="1", throttled="0")
    with answered(station.relay.sns, half, {}) as left, calls(station.relay.sns) as made:
        station.handle(BATCH)
    assert left == []
    sent = [[e["Message"] for e in p["PublishBatchRequestEntries"]] for _, p in made]
    failed = [BODIES[0], BODIES[2]]
    assert sent == [BODIES, failed, failed]
    assert station.heard() == failed


@pytest.mark.parametrize(
    ("first", "waiting"),
    [
        (batch_answer(taken="0", throttled="12"), 2),
        (batch_answer(taken="2", refused="0", throttled="1"), 1),
    ],
    ids=["beside a published event", "beside a refused event"],
)
def test_o6_the_error_counts_the_events_that_stay_throttled(
    station: Station, first: dict[str, Any], waiting: int
) -> None:
    with (
        answered(station.relay.sns, first, *[batch_answer(throttled="01")] * 1000),
        pytest.raises(NotRelayed, match=f"^{waiting} events are not published: Throttled"),
    ):
        station.handle(BATCH)
