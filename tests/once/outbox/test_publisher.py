"""The publisher: batches that SNS accepts, and ordered events in the order of their commits."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from once.errors import SettingsError
from once.events.identity import key_hash
from once.events.outgoing import OutgoingEvent, event_id_of
from once.names import Limits
from once.outbox.publisher import Publisher, Unpublished, deduplication_id
from once.outbox.relay import NotRelayed, Relay, Relayed
from once.runtime.metrics_log import MetricsLog
from once.settings import RelaySettings
from once.testing import FakeContext
from tests.once.outbox.relaying import batch_answer, change, image, outgoing
from tests.once.support import quick

Entries = Sequence[Mapping[str, Any]]
Answer = Mapping[str, Any]
Reply = Callable[[Entries], Answer]

EVENTS = [outgoing(n) for n in range(30)]


def bodies(events: Sequence[OutgoingEvent]) -> Counter[str]:
    return Counter(event.body for event in events)


def take_all(entries: Entries) -> Answer:
    return {"Successful": [{"Id": entry["Id"]} for entry in entries]}


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "of a secret"}}, "PublishBatch")


class Topic:
    """SNS: answers as told, and keeps the batches and the entries that it has taken."""

    def __init__(self, *answers: Reply, always: Reply = take_all) -> None:
        self.batches: list[Entries] = []
        self.taken: list[tuple[str, Mapping[str, Any]]] = []
        self._answers, self._always = iter(answers), always

    def publish_batch(self, TopicArn: str, PublishBatchRequestEntries: Entries) -> Answer:  # noqa: N803
        self.batches.append(PublishBatchRequestEntries)
        answer = next(self._answers, self._always)(PublishBatchRequestEntries)
        ids = {entry["Id"] for entry in answer.get("Successful", [])}
        self.taken += [(TopicArn, e) for e in PublishBatchRequestEntries if e["Id"] in ids]
        return answer

    def publish(self, events: Sequence[OutgoingEvent]) -> list[Unpublished]:
        return Publisher(self, "arn").publish(events)  # type: ignore[arg-type]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]

    @property
    def messages(self) -> Counter[str]:
        """The bodies that were taken; all were sent to the only topic."""
        assert {arn for arn, _ in self.taken} <= {"arn"}
        return Counter(entry["Message"] for _, entry in self.taken)


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
    assert topic.messages == bodies(events)


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
    left = Topic(always=lambda entries: answer).publish(EVENTS[:4])
    assert left == [Unpublished(EVENTS[n], e, permanent=False) for n, e in errors.items()]


@pytest.mark.parametrize("code", ["InvalidParameter", "Throttled", "KMSDisabled", "AccessDenied"])
@pytest.mark.parametrize("sender", [True, False])
def test_o4_a_sender_fault_is_permanent_unless_its_code_may_pass(
    code: str, *, sender: bool
) -> None:
    failed = [{"Id": "0", "Code": code, "SenderFault": sender}]
    [left] = Topic(always=lambda entries: {"Failed": failed}).publish(EVENTS[:1])
    assert (left.error, left.permanent) == (code, sender and code == "InvalidParameter")


def refusing(code: str, failing: Sequence[OutgoingEvent]) -> Reply:
    """Refuse a batch as a whole if it holds a failing event."""

    def answer(entries: Entries) -> Answer:
        if bodies(failing).keys() & {entry["Message"] for entry in entries}:
            raise error(code)
        return take_all(entries)

    return answer


@pytest.mark.parametrize("code", ["InvalidParameter", "ValidationException", "BatchRequestTooLong"])
def test_o4_a_refused_batch_is_halved_until_the_failing_event_is_alone(code: str) -> None:
    topic = Topic(always=refusing(code, [EVENTS[6]]))
    left = topic.publish(EVENTS[:10])
    assert left == [Unpublished(EVENTS[6], f"ClientError {code}", permanent=True)]
    assert topic.sizes == [10, 5, 5, 2, 1, 1, 3]


@quick
@given(st.integers(1, 25), st.sets(st.integers(0, 24)))
def test_o4_events_beside_failing_ones_are_published_once(number: int, positions: set[int]) -> None:
    failing = [event for n, event in enumerate(EVENTS[:number]) if n in positions]
    topic = Topic(always=refusing("InvalidParameter", failing))
    assert [entry.event for entry in topic.publish(EVENTS[:number])] == failing
    assert topic.messages == bodies([e for e in EVENTS[:number] if e not in failing])


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

    topic = Topic(always=answer)
    left = topic.publish(EVENTS[:12])
    assert [(entry.event, entry.permanent) for entry in left] == [(e, False) for e in EVENTS[:10]]
    assert topic.sizes == [10, 2]
    assert topic.messages == bodies(EVENTS[10:12])
    for entry in left:
        assert entry.error.startswith(type(fault).__name__)
        assert "secret" not in entry.error


# Ordered events reach the FIFO topic in the order of their commits, whatever a call's answer.


SETTINGS = RelaySettings(
    service="shop",
    topic_arn="standard",
    ordered_topic_arn="topic.fifo",
    dead_letter_url="dead-letters",
    publishes={"notes": ("counted", "shared", "plain")},
    groups={"counted": "name", "shared": "name"},
    ordered_types=("counted",),
)


def ordered(pk: str, position: int, group: Any, kind: str = "counted") -> OutgoingEvent:
    head: Any = {"id": event_id_of(key_hash(pk), position), "source": "/once/notes", "type": kind}
    return OutgoingEvent(**head, body=json.dumps({**head, "data": {"name": group, "pk": pk}}))


def committed(number: int, *groups: str) -> list[dict[str, Any]]:
    """The stream's records of a commit with an ordered event of each group: record first."""
    pk = f"notes#{number}"
    events = [ordered(pk, position, group) for position, group in enumerate(groups)]
    record = image(*events, pk=pk) | {"sequenced": {"SS": ["counted"]}}
    return [change(record), *(change(sequence(pk, e, g)) for e, g in zip(events, groups))]  # noqa: B905


def sequence(pk: str, one: OutgoingEvent, group: str, owner: str = "notes") -> dict[str, Any]:
    own = image(one, pk=f"{owner}#sequence#{group}")
    del own["commit"]
    return {**own, "dedup_key": {"S": pk}, "once_commit": {"S": pk}}


def order(topic: Topic, group: str) -> list[str]:
    """The dedup keys of a group's events, as the FIFO topic has taken them first."""
    found = [e for arn, e in topic.taken if arn == "topic.fifo" and e["MessageGroupId"] == group]
    return list(dict.fromkeys(json.loads(each["Message"])["data"]["pk"] for each in found))


class DeadLetters:
    """SQS: keeps the dead letters."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send_message(self, **request: Any) -> None:
        self.sent.append(request)


def relayed(topic: Topic, *records: Any, seconds: float = 60, **settings: Any) -> Relayed:
    return relay_of(topic, DeadLetters(), seconds, **settings)({"Records": [*records]})


def relay_of(
    topic: Any, dead_letters: Any, seconds: float = 60, **settings: Any
) -> Callable[[dict[str, Any]], Relayed]:
    context = FakeContext(int(seconds * 1000))

    def sleep(pause: float) -> None:
        context.remaining_ms -= int(pause * 1000) + 1

    relay = Relay(
        settings=replace(SETTINGS, **settings),
        sns=topic,
        sqs=dead_letters,
        logger=Logger(service=uuid4().hex, stream=StringIO()),
        metrics=MetricsLog(service="relay"),
        sleep=sleep,
    )
    return lambda batch: relay.handle(batch, context)


def throttled(entries: Entries) -> Answer:
    raise error("Throttled")


def no_answer(entries: Entries) -> Answer:
    raise ReadTimeoutError(endpoint_url="sns")


def failing(positions: set[int], code: str = "InternalError") -> Reply:
    """Fail the entries at these positions, under HTTP 200."""

    def answer(entries: Entries) -> Answer:
        failed = [e for n, e in enumerate(entries) if n in positions]
        fault = {"Code": code, "SenderFault": code == "InvalidParameter"}
        return {
            "Successful": [{"Id": e["Id"]} for e in entries if e not in failed],
            "Failed": [{"Id": e["Id"], **fault} for e in failed],
        }

    return answer


ANSWERS = st.one_of(
    st.sampled_from([take_all, no_answer, throttled]),
    st.sets(st.integers(0, 9), max_size=4).map(failing),
)


@quick
@given(
    commits=st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)),
    answers=st.lists(ANSWERS, max_size=8),
)
def test_f1_a_group_reaches_the_topic_in_the_order_of_its_commits(
    commits: list[list[str]], answers: list[Reply]
) -> None:
    topic = Topic(*answers)
    relayed(topic, *(r for n, groups in enumerate(commits) for r in committed(n, *groups)))
    for group in "abc":
        expected = [f"notes#{n}" for n, groups in enumerate(commits) if group in groups]
        assert order(topic, group) == expected
    for entries in topic.batches:
        groups = [entry["MessageGroupId"] for entry in entries]
        assert len(set(groups)) == len(groups)


def test_an_ordered_event_is_published_once_with_its_group_and_id() -> None:
    topic = Topic()
    assert relayed(topic, *committed(1, "a"))["published"] == {"counted": 1}
    [(arn, entry)] = topic.taken
    expected = ordered("notes#1", 0, "a")
    assert arn == "topic.fifo"
    unique = deduplication_id(expected)
    assert (entry["MessageGroupId"], entry["MessageDeduplicationId"]) == ("a", unique)
    assert entry["Message"] == expected.body


def test_an_event_that_is_not_published_in_time_keeps_its_group_waiting() -> None:
    topic = Topic(*[failing({0})] * 1000)
    records = [r for n in range(3) for r in committed(n, "a")] + committed(3, "b")
    with pytest.raises(NotRelayed, match="3 events are not published: InternalError"):
        relayed(topic, *records, seconds=8)
    assert (order(topic, "a"), order(topic, "b")) == ([], ["notes#3"])
    topic = Topic()
    with pytest.raises(NotRelayed, match="1 events are not published: no time is left"):
        relayed(topic, *committed(1, "a"), *committed(2, "a"), seconds=5)
    assert order(topic, "a") == ["notes#1"]


def test_after_a_dead_letter_the_group_goes_on() -> None:
    topic, dead_letters = Topic(failing({0}, "InvalidParameter")), DeadLetters()
    answer = relay_of(topic, dead_letters)({"Records": [*committed(1, "a"), *committed(2, "a")]})
    assert order(topic, "a") == ["notes#2"]
    assert answer["dead_lettered"] == [key_hash("notes#1")]
    [dead_letter] = dead_letters.sent
    assert dead_letter["MessageAttributes"]["once-key"]["StringValue"] == "notes#1"
    error = dead_letter["MessageAttributes"]["once-error"]["StringValue"]
    assert error.endswith("InvalidParameter; the later events of its message group are published")


def test_an_event_whose_type_was_or_is_not_ordered_any_more_is_published() -> None:
    topic = Topic()
    # As in a republish, and for a commit before the type was declared ordered.
    relayed(topic, change(image(ordered("notes#1", 0, "a"), pk="notes#1")))
    assert order(topic, "a") == ["notes#1"]
    relayed(topic, *committed(2, "a"), ordered_types=())
    assert [arn for arn, _ in topic.taken] == ["topic.fifo", "standard"]


def test_a_shared_event_has_its_group_on_the_standard_topic() -> None:
    topic = Topic()
    events = [
        ordered("notes#1", n, g, k) for n, (g, k) in enumerate([("a b", "shared"), ("", "plain")])
    ]
    relayed(topic, change(image(*events, pk="notes#1")))
    [(arn, shared), (_, plain)] = topic.taken
    assert arn == "standard"
    assert len(shared["MessageGroupId"]) == 64
    assert "MessageDeduplicationId" not in shared
    assert "MessageGroupId" not in plain


def test_ordered_types_without_a_fifo_topic_fail_the_start_of_the_relay() -> None:
    types = ("counted", "shared")
    with pytest.raises(SettingsError, match="counted, shared need a FIFO topic"):
        Relay.of(replace(SETTINGS, ordered_topic_arn=None, ordered_types=types))


FIRST = ordered("notes#1", 0, "a")
NO_GROUP = (
    "its message group is the field 'name' of the data, which is neither a non-blank string nor a "
    "whole number: the event was committed before the field was declared"
)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (sequence("notes#1", FIRST, "a", "other"), "other may not publish"),
        (sequence("other#1", FIRST, "a"), "not derived from the key"),
        (sequence("notes#2", FIRST, "a"), "not derived from the key"),
        (sequence("notes#1", ordered("notes#1", -1, "a"), "a"), "not derived from the key"),
        (sequence("notes#1", ordered("notes#1", 0, None), "a"), NO_GROUP),
    ],
    ids=["consumer's item", "consumer's record", "another record", "no position", "no group"],
)
def test_s1_a_forged_sequence_item_is_dead_lettered(item: dict[str, Any], text: str) -> None:
    topic, dead_letters = Topic(), DeadLetters()
    relay_of(topic, dead_letters)({"Records": [change(item)]})
    assert topic.taken == []
    [dead_letter] = dead_letters.sent
    assert text in dead_letter["MessageAttributes"]["once-error"]["StringValue"]
