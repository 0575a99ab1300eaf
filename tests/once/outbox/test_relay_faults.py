"""The relay sends first: it returns when everything is on the topic, and raises where it is not."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from botocore.parsers import ResponseParserError

from once.outbox.stream_relay import NotRelayed
from once.testing import Fault, answer_lost, inject, never_sent, refused
from tests.once.outbox.relaying import Station, answered, change, image, outgoing
from tests.once.support import calls

EVENTS = [outgoing(n) for n in range(3)]
BODIES = [event.body for event in EVENTS]
BATCH = change(image(*EVENTS))
THROTTLED = {"Code": "Throttled", "SenderFault": False}

PASSING: dict[str, Fault] = {
    "throttled": refused("Throttling"),
    "no rights": refused("AuthorizationError", status=403),
    "no topic": refused("NotFound", status=404),
    "keys throttled": refused("KMSThrottling"),
    "server error": refused("InternalError", status=500),
    "timeout": never_sent(),
}


@pytest.fixture
def station() -> Station:
    return Station()


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_o2_a_publish_that_fails_is_tried_again_until_it_is_answered(
    station: Station, fault: Fault
) -> None:
    with inject(station.relay.sns, "PublishBatch", fault, fault) as left:
        station.handle(BATCH)
    assert left == []
    assert station.heard() == BODIES
    assert station.dead_letters() == []


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
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


@pytest.mark.usefixtures("longest_delays")
def test_o2_the_bound_of_the_pause_doubles_with_each_attempt(station: Station) -> None:
    paused: list[float] = []
    station.relay = replace(station.relay, sleep=paused.append)
    with inject(station.relay.sns, "PublishBatch", *[never_sent()] * 4) as left:
        station.handle(BATCH)
    assert left == []
    assert paused == [0.025, 0.05, 0.1, 0.2]


def test_o2_without_time_for_another_attempt_the_first_failure_fails_the_batch(
    station: Station,
) -> None:
    station.context.remaining_ms = station.settings.time_margin_ms
    with (
        inject(station.relay.sns, "PublishBatch", never_sent()) as left,
        pytest.raises(NotRelayed, match="ReadTimeoutError"),
    ):
        station.handle(BATCH)
    assert left == []


def test_o2_a_batch_that_failed_is_published_when_it_comes_again(station: Station) -> None:
    station.context.remaining_ms = 0
    with inject(station.relay.sns, "PublishBatch", never_sent()), pytest.raises(NotRelayed):
        station.handle(BATCH)
    station.handle(BATCH)
    assert station.heard() == BODIES


def test_o2_events_whose_answer_is_lost_are_published_again_as_they_were(
    station: Station,
) -> None:
    with inject(station.relay.sns, "PublishBatch", answer_lost()) as left:
        station.handle(BATCH)
    assert left == []
    assert station.heard() == BODIES * 2


def test_o2_an_answer_that_cannot_be_read_is_no_answer(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    def garbled(**_: Any) -> Any:
        raise ResponseParserError("not XML")

    monkeypatch.setattr(station.relay.sns, "publish_batch", garbled)
    with pytest.raises(NotRelayed, match="ResponseParserError"):
        station.handle(BATCH)


def test_o6_of_a_batch_that_half_fails_under_http_200_only_the_failed_are_sent_again(
    station: Station,
) -> None:
    half = {"Successful": [{"Id": "1"}], "Failed": [{"Id": n, **THROTTLED} for n in "02"]}
    with answered(station.relay.sns, half) as left, calls(station.relay.sns) as made:
        station.handle(BATCH)
    assert left == []
    sent = [[e["Message"] for e in p["PublishBatchRequestEntries"]] for _, p in made]
    assert sent == [BODIES, [BODIES[0], BODIES[2]]]
    assert station.heard() == [BODIES[0], BODIES[2]]


def test_o6_an_event_without_an_answer_is_sent_again(station: Station) -> None:
    with answered(station.relay.sns, {"Successful": [{"Id": "0"}]}, {}):
        station.handle(BATCH)
    assert station.heard() == BODIES[1:]


def test_o6_half_a_batch_that_is_never_taken_fails_it_whole(station: Station) -> None:
    taken = {"Successful": [{"Id": "0"}], "Failed": [{"Id": n, **THROTTLED} for n in "12"]}
    none = {"Failed": [{"Id": n, **THROTTLED} for n in "01"]}
    with (
        answered(station.relay.sns, taken, *[none] * 1000),
        pytest.raises(NotRelayed, match="2 events are not published: Throttled"),
    ):
        station.handle(BATCH)


def test_the_error_names_what_keeps_events_waiting_and_not_what_was_dead_lettered(
    station: Station,
) -> None:
    guilty = {"Id": "0", "Code": "InvalidParameter", "SenderFault": True}
    answer = {"Failed": [guilty, {"Id": "1", **THROTTLED}], "Successful": [{"Id": "2"}]}
    station.context.remaining_ms = 0
    with (
        answered(station.relay.sns, answer),
        pytest.raises(NotRelayed, match="1 events are not published: Throttled"),
    ):
        station.handle(BATCH)


def test_more_than_a_batch_of_the_topic_takes_several(station: Station) -> None:
    first = [outgoing(n) for n in range(12)]
    second = [outgoing(n, pk="notes#f") for n in range(13)]
    station.handle(change(image(*first)), change(image(*second, pk="notes#f")))
    assert Counter(station.heard()) == Counter(event.body for event in (*first, *second))
