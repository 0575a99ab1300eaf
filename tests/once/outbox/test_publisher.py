"""The publisher: batches that SNS accepts, and each entry judged by its own answer."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from hypothesis import given
from hypothesis import strategies as st

from once.events.outgoing import OutgoingEvent
from once.names import Limits
from once.outbox.relay import Publisher, Unpublished
from tests.once.outbox.relaying import batch_answer, outgoing
from tests.once.support import quick

Entries = Sequence[Mapping[str, Any]]
Answer = Mapping[str, Any]

EVENTS = [outgoing(n) for n in range(30)]


def bodies(events: Sequence[OutgoingEvent]) -> Counter[str]:
    return Counter(event.body for event in events)


def take_all(entries: Entries) -> Answer:
    return {"Successful": [{"Id": entry["Id"]} for entry in entries]}


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "of a secret"}}, "PublishBatch")


class Topic:
    """An SNS client that answers with `answer`, which may also raise."""

    def __init__(self, answer: Callable[[Entries], Answer] = take_all) -> None:
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

    def publish(self, events: Sequence[OutgoingEvent]) -> list[Unpublished]:
        return Publisher(self, "arn").publish(events)  # type: ignore[arg-type]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


def test_an_event_is_published_unchanged_with_its_type_as_an_attribute() -> None:
    topic, event = Topic(), outgoing(0, type="stock.reserved")
    assert topic.publish([event]) == []
    [[entry]] = topic.batches
    assert entry == {
        "Id": "0",
        "Message": event.body,
        "MessageAttributes": {"type": {"DataType": "String", "StringValue": "stock.reserved"}},
    }


def filling(*bytes_each: int) -> list[OutgoingEvent]:
    """Events of these sizes as SNS counts them: body, and name, type and value of an attribute."""
    attribute = len("type" + "String" + "counted")
    return [outgoing(n, size - attribute) for n, size in enumerate(bytes_each)]


HALF = Limits.TOPIC_MESSAGE_BYTES // 2
IN_TWO_BYTES = OutgoingEvent("a", "/once/notes", "counted", "é" * (HALF // 2))


@pytest.mark.parametrize(
    ("events", "sizes"),
    [
        pytest.param([], [], id="none"),
        pytest.param(EVENTS[:11], [10, 1], id="eleven"),
        pytest.param(EVENTS, [10, 10, 10], id="thirty"),
        pytest.param(filling(HALF, HALF), [2], id="256 KiB"),
        pytest.param(filling(HALF, HALF + 1), [1, 1], id="a byte more"),
        pytest.param(filling(HALF, HALF, 200, 200), [2, 2], id="256 KiB and 400 bytes"),
        pytest.param(filling(2 * HALF + 1, 200), [1, 1], id="one event a byte larger"),
        pytest.param(filling(200, 2 * HALF + 1, 200), [1, 1, 1], id="too large between small"),
        pytest.param(filling(2 * HALF, HALF, HALF), [1, 2], id="512 KiB"),
        pytest.param([IN_TWO_BYTES] * 2, [1, 1], id="bytes count, not characters"),
    ],
)
def test_o6_a_batch_has_at_most_ten_events_and_256_kib(
    events: list[OutgoingEvent], sizes: list[int]
) -> None:
    topic = Topic()
    assert topic.publish(events) == []
    assert topic.sizes == sizes
    assert topic.taken == bodies(events)


NO_ANSWER = "no answer for this entry"
UNKNOWN = {"Successful": [{"Id": "0"}, {"Id": "7"}], "Failed": [{"Id": "8", "Code": "x"}]}


@pytest.mark.parametrize(
    ("answer", "errors"),
    [
        (batch_answer(taken="02", throttled="1"), {1: "Throttled", 3: NO_ANSWER}),
        (UNKNOWN, dict.fromkeys((1, 2, 3), NO_ANSWER)),
        ({"Successful": [], "Failed": []}, dict.fromkeys(range(4), NO_ANSWER)),
        ({"Successful": []}, dict.fromkeys(range(4), NO_ANSWER)),
        ({}, dict.fromkeys(range(4), NO_ANSWER)),
    ],
    ids=["half", "about others", "about none", "without failures", "empty"],
)
def test_o6_an_event_without_an_answer_counts_as_not_published(
    answer: Answer, errors: dict[int, str]
) -> None:
    left = Topic(lambda entries: answer).publish(EVENTS[:4])
    assert left == [Unpublished(EVENTS[n], e, permanent=False) for n, e in errors.items()]


def test_o6_the_entries_of_each_batch_are_numbered_from_0() -> None:
    left = Topic(lambda entries: batch_answer(taken="0")).publish(EVENTS[:12])
    assert [entry.event for entry in left] == [*EVENTS[1:10], EVENTS[11]]


@pytest.mark.parametrize("code", ["InvalidParameter", "Throttled", "KMSDisabled", "AccessDenied"])
@pytest.mark.parametrize("sender", [True, False])
def test_o4_a_sender_fault_is_permanent_unless_its_code_may_pass(
    code: str, *, sender: bool
) -> None:
    failed = [{"Id": "0", "Code": code, "SenderFault": sender}]
    [left] = Topic(lambda entries: {"Failed": failed}).publish(EVENTS[:1])
    assert (left.error, left.permanent) == (code, sender and code == "InvalidParameter")


def refusing(code: str, failing: Sequence[OutgoingEvent]) -> Callable[[Entries], Answer]:
    """Refuse a batch as a whole if it holds a failing event."""

    def answer(entries: Entries) -> Answer:
        if bodies(failing).keys() & {entry["Message"] for entry in entries}:
            raise error(code)
        return take_all(entries)

    return answer


@pytest.mark.parametrize("code", ["InvalidParameter", "ValidationException", "BatchRequestTooLong"])
def test_o4_a_refused_batch_is_halved_until_the_failing_event_is_alone(code: str) -> None:
    topic = Topic(refusing(code, [EVENTS[6]]))
    left = topic.publish(EVENTS[:10])
    assert left == [Unpublished(EVENTS[6], f"ClientError {code}", permanent=True)]
    assert topic.sizes == [10, 5, 5, 2, 1, 1, 3]


@quick
@given(st.integers(1, 25), st.sets(st.integers(0, 24)))
def test_o4_events_beside_failing_ones_are_published_once(number: int, positions: set[int]) -> None:
    failing = [event for n, event in enumerate(EVENTS[:number]) if n in positions]
    topic = Topic(refusing("InvalidParameter", failing))
    assert [entry.event for entry in topic.publish(EVENTS[:number])] == failing
    assert topic.taken == bodies([e for e in EVENTS[:number] if e not in failing])


CODES = "Throttling", "KMSThrottling", "AuthorizationError", "NotFound", "InternalError", "New"
TRANSIENT: dict[str, Exception] = {
    **{code: error(code) for code in CODES},
    "timeout": ReadTimeoutError(endpoint_url="x"),
    "connection lost": ConnectionClosedError(endpoint_url="x"),
    "unreadable answer": ResponseParserError("of a secret"),
}


@pytest.mark.parametrize("fault", TRANSIENT.values(), ids=TRANSIENT)
def test_o2_a_transient_fault_leaves_its_batch_unpublished_without_a_second_attempt(
    fault: Exception,
) -> None:
    def answer(entries: Entries) -> Answer:
        if len(entries) == 10:
            raise fault
        return take_all(entries)

    topic = Topic(answer)
    left = topic.publish(EVENTS[:12])
    assert [(entry.event, entry.permanent) for entry in left] == [(e, False) for e in EVENTS[:10]]
    assert topic.sizes == [10, 2]
    assert topic.taken == bodies(EVENTS[10:12])
    for entry in left:
        assert entry.error.startswith(type(fault).__name__)
        assert "secret" not in entry.error
