"""Ordered events reach the FIFO topic in the order of their commits, whatever a call's answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import given
from hypothesis import strategies as st

from once.errors import SettingsError
from once.events.identity import key_hash
from once.events.outgoing import OutgoingEvent, event_id_of
from once.outbox.relay import NotRelayed, Relay, Relayed
from once.runtime.metrics_log import MetricsLog
from once.settings import RelaySettings
from once.testing import FakeContext
from tests.once.outbox.relaying import change, image
from tests.once.support import quick

SETTINGS = RelaySettings(
    service="shop",
    topic_arn="standard",
    ordered_topic_arn="topic.fifo",
    dead_letter_url="dead-letters",
    publishes={"notes": ("counted", "shared", "plain")},
    groups={"counted": "name", "shared": "name"},
    ordered_types=("counted",),
)
Answer = Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]]
Entry = Mapping[str, Any]


def event(pk: str, position: int, group: Any, kind: str = "counted") -> OutgoingEvent:
    head = {"id": event_id_of(key_hash(pk), position), "source": "/once/notes", "type": kind}
    return OutgoingEvent(**head, body=json.dumps({**head, "data": {"name": group, "pk": pk}}))


def committed(number: int, *groups: str) -> list[dict[str, Any]]:
    """The stream's records of a commit with an ordered event of each group: record first."""
    pk = f"notes#{number}"
    events = [event(pk, position, group) for position, group in enumerate(groups)]
    record = image(*events, pk=pk) | {"sequenced": {"SS": ["counted"]}}
    return [change(record), *(change(sequence(pk, e, g)) for e, g in zip(events, groups))]  # noqa: B905


def sequence(pk: str, one: OutgoingEvent, group: str, owner: str = "notes") -> dict[str, Any]:
    own = image(one, pk=f"{owner}#sequence#{group}")
    del own["commit"]
    return {**own, "dedup_key": {"S": pk}, "once_commit": {"S": pk}}


def take_all(entries: Sequence[Entry]) -> Mapping[str, Any]:
    return {"Successful": [{"Id": entry["Id"]} for entry in entries]}


class Topic:
    """SNS: answers as told, and keeps the batches and the entries that it has taken."""

    def __init__(self, *answers: Answer) -> None:
        self.batches: list[tuple[str, Sequence[Entry]]] = []
        self.taken: list[tuple[str, Entry]] = []
        self._answers = iter(answers)

    def publish_batch(self, TopicArn: str, PublishBatchRequestEntries: Sequence[Entry]) -> Any:  # noqa: N803
        self.batches.append((TopicArn, PublishBatchRequestEntries))
        answer = next(self._answers, take_all)(PublishBatchRequestEntries)
        ids = {each["Id"] for each in answer.get("Successful", [])}
        self.taken += [(TopicArn, e) for e in PublishBatchRequestEntries if e["Id"] in ids]
        return answer

    def order(self, group: str) -> list[str]:
        """The dedup keys of a group's events, as the topic has taken them first."""
        found = [e for arn, e in self.taken if arn == "topic.fifo" and e["MessageGroupId"] == group]
        return list(dict.fromkeys(json.loads(each["Message"])["data"]["pk"] for each in found))


class Letters:
    """SQS: keeps the dead letters."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send_message(self, **request: Any) -> None:
        self.sent.append(request)


def relayed(topic: Topic, *records: Any, seconds: float = 60, **settings: Any) -> Relayed:
    return relay_of(topic, Letters(), seconds, **settings)({"Records": [*records]})


def relay_of(
    topic: Any, letters: Any, seconds: float = 60, **settings: Any
) -> Callable[[dict[str, Any]], Relayed]:
    context = FakeContext(int(seconds * 1000))

    def sleep(pause: float) -> None:
        context.remaining_ms -= int(pause * 1000) + 1

    relay = Relay(
        settings=replace(SETTINGS, **settings),
        sns=topic,
        sqs=letters,
        logger=Logger(service=uuid4().hex, stream=StringIO()),
        metrics=MetricsLog(service="relay"),
        sleep=sleep,
    )
    return lambda batch: relay.handle(batch, context)


def no_answer(entries: Sequence[Entry]) -> Mapping[str, Any]:
    raise ReadTimeoutError(endpoint_url="sns")


def refusing(code: str) -> Answer:
    def answer(entries: Sequence[Entry]) -> Mapping[str, Any]:
        raise ClientError({"Error": {"Code": code, "Message": ""}}, "PublishBatch")

    return answer


def failing(positions: set[int], code: str = "InternalError") -> Answer:
    """Fail the entries at these positions, under HTTP 200."""

    def answer(entries: Sequence[Entry]) -> Mapping[str, Any]:
        failed = [e for n, e in enumerate(entries) if n in positions]
        fault = {"Code": code, "SenderFault": code == "InvalidParameter"}
        return {
            "Successful": [{"Id": e["Id"]} for e in entries if e not in failed],
            "Failed": [{"Id": e["Id"], **fault} for e in failed],
        }

    return answer


ANSWERS = st.one_of(
    st.sampled_from([take_all, no_answer, refusing("Throttled")]),
    st.sets(st.integers(0, 9), max_size=4).map(failing),
)


@quick
@given(
    commits=st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)),
    answers=st.lists(ANSWERS, max_size=8),
)
def test_f1_a_group_reaches_the_topic_in_the_order_of_its_commits(
    commits: list[list[str]], answers: list[Answer]
) -> None:
    topic = Topic(*answers)
    relayed(topic, *(r for n, groups in enumerate(commits) for r in committed(n, *groups)))
    for group in "abc":
        expected = [f"notes#{n}" for n, groups in enumerate(commits) if group in groups]
        assert topic.order(group) == expected
    for _, entries in topic.batches:
        groups = [entry["MessageGroupId"] for entry in entries]
        assert len(set(groups)) == len(groups)


def test_an_ordered_event_is_published_once_with_its_group_and_id() -> None:
    topic = Topic()
    assert relayed(topic, *committed(1, "a"))["published"] == {"counted": 1}
    [(arn, entry)] = topic.taken
    expected = event("notes#1", 0, "a")
    assert arn == "topic.fifo"
    assert (entry["MessageGroupId"], entry["MessageDeduplicationId"]) == ("a", expected.id)
    assert entry["Message"] == expected.body


def test_an_event_that_is_not_published_in_time_keeps_its_group_waiting() -> None:
    topic = Topic(*[failing({0})] * 1000)
    records = [r for n in range(3) for r in committed(n, "a")] + committed(3, "b")
    with pytest.raises(NotRelayed, match="3 events are not published: InternalError"):
        relayed(topic, *records, seconds=8)
    assert topic.order("a") == []
    assert topic.order("b") == ["notes#3"]


def test_without_time_no_further_event_of_a_group_is_published() -> None:
    topic = Topic()
    with pytest.raises(NotRelayed, match="1 events are not published: no time is left"):
        relayed(topic, *committed(1, "a"), *committed(2, "a"), seconds=5)
    assert topic.order("a") == ["notes#1"]


def test_after_a_dead_letter_the_group_goes_on() -> None:
    topic, letters = Topic(failing({0}, "InvalidParameter")), Letters()
    answer = relay_of(topic, letters)({"Records": [*committed(1, "a"), *committed(2, "a")]})
    assert topic.order("a") == ["notes#2"]
    assert answer["dead_lettered"] == [key_hash("notes#1")]
    [letter] = letters.sent
    assert letter["MessageAttributes"]["once-key"]["StringValue"] == "notes#1"
    error = letter["MessageAttributes"]["once-error"]["StringValue"]
    assert error.endswith("InvalidParameter; the later events of its message group are published")


def test_a_record_without_sequence_items_publishes_its_ordered_events_itself() -> None:
    """As in a republish, and for a commit before the type was declared ordered."""
    topic = Topic()
    relayed(topic, change(image(event("notes#1", 0, "a"), pk="notes#1")))
    assert topic.order("a") == ["notes#1"]


def test_a_sequence_item_of_a_type_that_is_not_ordered_any_more_is_published() -> None:
    topic = Topic()
    relayed(topic, *committed(1, "a"), ordered_types=())
    assert [arn for arn, _ in topic.taken] == ["standard"]


def test_a_shared_event_has_its_group_on_the_standard_topic() -> None:
    topic = Topic()
    events = [
        event("notes#1", n, g, k) for n, (g, k) in enumerate([("a b", "shared"), ("", "plain")])
    ]
    relayed(topic, change(image(*events, pk="notes#1")))
    [(arn, shared), (_, plain)] = topic.taken
    assert arn == "standard"
    assert len(shared["MessageGroupId"]) == 64
    assert "MessageDeduplicationId" not in shared
    assert "MessageGroupId" not in plain


def test_ordered_types_without_a_fifo_topic_fail_the_start_of_the_relay() -> None:
    with pytest.raises(SettingsError, match="counted need a FIFO topic"):
        Relay.of(replace(SETTINGS, ordered_topic_arn=None))


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (sequence("notes#1", event("notes#1", 0, "a"), "a", "other"), "other may not publish"),
        (sequence("other#1", event("notes#1", 0, "a"), "a"), "not derived from the key"),
        (sequence("notes#2", event("notes#1", 0, "a"), "a"), "not derived from the key"),
        (sequence("notes#1", event("notes#1", 0, None), "a"), "the field 'name' of the data"),
    ],
    ids=["another consumer's item", "another consumer's record", "another record", "no group"],
)
def test_s1_a_forged_sequence_item_is_dead_lettered(item: dict[str, Any], text: str) -> None:
    topic, letters = Topic(), Letters()
    relay_of(topic, letters)({"Records": [change(item)]})
    assert topic.taken == []
    [letter] = letters.sent
    assert text in letter["MessageAttributes"]["once-error"]["StringValue"]
