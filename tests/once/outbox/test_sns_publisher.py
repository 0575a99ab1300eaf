"""The publisher: every entry's own answer counts, in batches that SNS takes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from hypothesis import given
from hypothesis import strategies as st

from once.events.outgoing import OutgoingEvent
from once.outbox._sns_publisher import Publisher, Unpublished
from once.schema import Limits
from tests.once.outbox.relaying import outgoing
from tests.once.support import quick

ATTRIBUTES = len("type" + "String" + "counted")
"""What SNS counts of an event beside its body, in bytes."""

Entries = Sequence[Mapping[str, Any]]
Answer = dict[str, list[dict[str, Any]]]


def all_taken(entries: Entries) -> Answer:
    return {"Successful": [{"Id": entry["Id"]} for entry in entries]}


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "of a secret"}}, "PublishBatch")


class Topic:
    """A client whose topic takes what `answer` says; whatever that raises is raised."""

    def __init__(self, answer: Callable[[Entries], Answer] = all_taken) -> None:
        self._answer = answer
        self.batches: list[Entries] = []
        self.taken: Counter[str] = Counter()

    def publish_batch(self, TopicArn: str, PublishBatchRequestEntries: Entries) -> Answer:  # noqa: N803
        assert TopicArn == "arn"
        self.batches.append(PublishBatchRequestEntries)
        answer = self._answer(PublishBatchRequestEntries)
        ids = {entry["Id"] for entry in answer.get("Successful", [])}
        self.taken.update(e["Message"] for e in PublishBatchRequestEntries if e["Id"] in ids)
        return answer

    def publish(self, *events: OutgoingEvent) -> list[Unpublished]:
        return Publisher(self, "arn").publish(events)  # type: ignore[arg-type]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


def some(number: int) -> list[OutgoingEvent]:
    return [outgoing(n) for n in range(number)]


def filling(*bytes_each: int) -> list[OutgoingEvent]:
    """Events that have so many bytes as SNS counts them."""
    return [outgoing(n, size - ATTRIBUTES) for n, size in enumerate(bytes_each)]


def test_an_event_goes_out_as_it_is_with_its_type_beside_it() -> None:
    topic, event = Topic(), outgoing(0, event_type="stock.reserved")
    assert topic.publish(event) == []
    [[entry]] = topic.batches
    assert entry == {
        "Id": "0",
        "Message": event.body,
        "MessageAttributes": {"type": {"DataType": "String", "StringValue": "stock.reserved"}},
    }


def test_without_events_nothing_is_called() -> None:
    topic = Topic()
    assert topic.publish() == []
    assert topic.batches == []


@pytest.mark.parametrize(
    ("number", "sizes"), [(1, [1]), (10, [10]), (11, [10, 1]), (30, [10, 10, 10])]
)
def test_o6_a_batch_has_at_most_ten_events(number: int, sizes: list[int]) -> None:
    topic = Topic()
    assert topic.publish(*some(number)) == []
    assert topic.sizes == sizes
    assert topic.taken == Counter(event.body for event in some(number))


HALF = Limits.TOPIC_MESSAGE_BYTES // 2


@pytest.mark.parametrize(
    ("bytes_each", "sizes"),
    [
        ((HALF, HALF), [2]),
        ((HALF, HALF + 1), [1, 1]),
        ((HALF, HALF, 200), [2, 1]),
        ((HALF, HALF, 200, 200), [2, 2]),
        ((2 * HALF, 200), [1, 1]),
        ((2 * HALF + 1, 200), [1, 1]),
        ((200, 2 * HALF + 1, 200), [1, 1, 1]),
        ((2 * HALF, HALF, HALF), [1, 2]),
    ],
)
def test_o6_a_batch_has_at_most_256_kib(bytes_each: tuple[int, ...], sizes: list[int]) -> None:
    topic = Topic()
    assert topic.publish(*filling(*bytes_each)) == []
    assert topic.sizes == sizes


def test_o6_text_counts_in_bytes_and_not_in_characters() -> None:
    topic, body = Topic(), "é" * (HALF // 2)
    topic.publish(*(OutgoingEvent(name, "/once/notes", "counted", body) for name in "ab"))
    assert topic.sizes == [1, 1]


def throttling_all_but(*taken: str) -> Callable[[Entries], Answer]:
    def answer(entries: Entries) -> Answer:
        failed = [e["Id"] for e in entries if e["Id"] not in taken]
        return {
            "Successful": [{"Id": number} for number in taken],
            "Failed": [{"Id": n, "Code": "Throttled", "SenderFault": False} for n in failed],
        }

    return answer


def test_o6_of_a_batch_that_half_fails_only_the_failed_are_told() -> None:
    events = some(4)
    left = Topic(throttling_all_but("0", "2")).publish(*events)
    assert left == [Unpublished(events[n], "Throttled", permanent=False) for n in (1, 3)]


@pytest.mark.parametrize("answer", [{}, {"Successful": []}, {"Successful": [], "Failed": []}])
def test_o6_an_event_without_an_answer_counts_as_not_published(answer: Answer) -> None:
    [event] = some(1)
    left = Topic(lambda entries: answer).publish(event)
    assert left == [Unpublished(event, "no answer for this entry", permanent=False)]


def test_o6_an_answer_about_nobody_is_nobodys() -> None:
    events = some(2)
    answer = {"Successful": [{"Id": "0"}, {"Id": "7"}], "Failed": [{"Id": "8", "Code": "x"}]}
    left = Topic(lambda entries: answer).publish(*events)
    assert [entry.event for entry in left] == [events[1]]


def test_o6_in_a_second_batch_ids_begin_anew_and_name_its_own_events() -> None:
    events = some(12)
    left = Topic(throttling_all_but("0")).publish(*events)
    assert [entry.event for entry in left] == [*events[1:10], events[11]]


@pytest.mark.parametrize("code", ["InvalidParameter", "Throttled", "KMSDisabled", "AccessDenied"])
@pytest.mark.parametrize("sender", [True, False])
def test_o4_what_the_topic_blames_on_the_event_is_permanent(code: str, *, sender: bool) -> None:
    failed = [{"Id": "0", "Code": code, "SenderFault": sender}]
    [left] = Topic(lambda entries: {"Failed": failed}).publish(*some(1))
    assert (left.error, left.permanent) == (code, sender and code == "InvalidParameter")


PERMANENT = ["InvalidParameter", "ValidationException", "BatchRequestTooLong"]


def refusing(code: str, *guilty: OutgoingEvent) -> Callable[[Entries], Answer]:
    """Refuse a batch as a whole that holds one of the guilty."""
    bodies = {event.body for event in guilty}

    def answer(entries: Entries) -> Answer:
        if any(entry["Message"] in bodies for entry in entries):
            raise error(code)
        return all_taken(entries)

    return answer


@pytest.mark.parametrize("code", PERMANENT)
def test_o4_a_batch_refused_as_a_whole_is_halved_until_the_guilty_stands_alone(code: str) -> None:
    events = some(10)
    topic = Topic(refusing(code, events[6]))
    left = topic.publish(*events)
    assert left == [Unpublished(events[6], f"ClientError {code}", permanent=True)]
    assert topic.sizes == [10, 5, 5, 2, 1, 1, 3]


@quick
@given(st.integers(1, 25), st.sets(st.integers(0, 24)))
def test_o4_whoever_is_guilty_all_others_are_published_once(
    number: int, positions: set[int]
) -> None:
    events = some(number)
    guilty = [event for position, event in enumerate(events) if position in positions]
    topic = Topic(refusing("InvalidParameter", *guilty))
    assert [entry.event for entry in topic.publish(*events)] == guilty
    assert topic.taken == Counter(event.body for event in events if event not in guilty)


PASSING: dict[str, Exception] = {
    "throttled": error("Throttling"),
    "keys throttled": error("KMSThrottling"),
    "no rights": error("AuthorizationError"),
    "no topic": error("NotFound"),
    "server error": error("InternalError"),
    "something new": error("SomethingNew"),
    "timeout": ReadTimeoutError(endpoint_url="x"),
    "connection lost": ConnectionClosedError(endpoint_url="x"),
    "unreadable answer": ResponseParserError("of a secret"),
}


def raising(fault: Exception) -> Callable[[Entries], Answer]:
    def answer(entries: Entries) -> Answer:
        raise fault

    return answer


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_o2_what_may_pass_is_tried_once_and_told_of_every_event(fault: Exception) -> None:
    topic, events = Topic(raising(fault)), some(3)
    left = topic.publish(*events)
    assert [entry.event for entry in left] == events
    assert [entry.permanent for entry in left] == [False] * 3
    assert topic.sizes == [3]


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_nothing_of_an_event_is_in_the_error(fault: Exception) -> None:
    [left] = Topic(raising(fault)).publish(*some(1))
    assert left.error.startswith(type(fault).__name__)
    assert "secret" not in left.error


def test_o2_one_batch_that_fails_does_not_keep_the_next_from_being_published() -> None:
    def answer(entries: Entries) -> Answer:
        if len(entries) == 10:
            raise error("Throttling")
        return all_taken(entries)

    topic, events = Topic(answer), some(12)
    assert [entry.event for entry in topic.publish(*events)] == events[:10]
    assert topic.taken == Counter(event.body for event in events[10:])
