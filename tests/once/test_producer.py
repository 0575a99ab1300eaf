"""Producer: events with ids that stay the same, in batches of which each entry's answer counts."""

import json
import subprocess
import sys
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from once import NotPublished, Producer
from once.errors import InvalidWrite, NoKey, OnceError, TooLarge
from once.events.cloud_event import read_event
from once.events.outgoing import OutgoingEvent
from once.names import Limits
from tests.once.outbox.test_publisher import Topic, failing
from tests.once.support import quick

FIFO = "ingress.fifo"
ACCOUNT = "123456789012"
"""Of AWS in memory."""


def producer(topic: Any = None, arn: str = "arn", pauses: list[float] | None = None) -> Producer:
    waited = [] if pauses is None else pauses
    return Producer(source="/shop", topic_arn=arn, sns=topic, sleep=waited.append)


def moved(number: int, account: str = "a", size: int = 0) -> OutgoingEvent:
    data = {"account": account, "text": "x" * size}
    return producer().event("moved", data, event_id=f"e-{number}", grouped_by="account")


class Order(Struct):
    order_id: str


def test_subscribers_receive_the_event_by_its_type() -> None:
    sns, sqs = boto3.client("sns", "us-east-1"), boto3.client("sqs", "us-east-1")
    arn = sns.create_topic(Name="producer")["TopicArn"]
    url = sqs.create_queue(QueueName="producer")["QueueUrl"]
    selected = {"RawMessageDelivery": "true", "FilterPolicy": '{"type": ["order.placed"]}'}
    queue = f"arn:aws:sqs:us-east-1:{ACCOUNT}:producer"
    sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue, Attributes=selected)
    shop = Producer(source="/shop", topic_arn=arn, sns=sns)
    attributes = {"time": "2026-01-01T00:00:00Z", "tenant": "t-1"}
    more: Any = {"subject": "o-1", "attributes": attributes}
    placed = shop.event("order.placed", Order("o-1"), key="o-1", **more)
    shop.publish([placed, shop.event("order.lost", {}, key="o-1")])
    [message] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    event = read_event(message["Body"], max_bytes=1000)
    assert (event.source, event.id, event.type) == ("/shop", placed.id, "order.placed")
    assert (event.subject, event.time) == ("o-1", attributes["time"])
    assert (event.data, event.extensions) == ({"order_id": "o-1"}, {"tenant": "t-1"})


def test_an_id_derives_from_type_and_key_and_two_runs_send_the_same_bytes() -> None:
    def made(event_type: str, key: str) -> OutgoingEvent:
        return producer().event(event_type, {"a": 1}, key=key)

    assert made("a", "k") == made("a", "k")
    ids = {made(*of).id for of in (("a", "k"), ("b", "k"), ("a", "l"), ("a#b", "c"), ("a", "b#c"))}
    assert len(ids) == 5


REFUSED: dict[str, tuple[type[OnceError], str, dict[str, Any]]] = {
    "no identity": (NoKey, "has no id: .* run of the program must give the same", {"key": None}),
    "two identities": (NoKey, "either key=", {"event_id": "e"}),
    "a blank key": (NoKey, "has no id", {"key": " "}),
    "a blank id": (NoKey, "has no id", {"key": None, "event_id": ""}),
    "half a character as key": (NoKey, "surrogate", {"key": "\ud800"}),
    "half a character as id": (InvalidWrite, "no consumer", {"key": None, "event_id": "\ud800"}),
    "a type that no queue selects": (InvalidWrite, "by no queue", {"event_type": "a*"}),
    "no number": (InvalidWrite, "NaN is not JSON", {"data": {"secret": float("nan")}}),
    "no form in JSON": (InvalidWrite, "no form", {"data": object()}),
    "data as an attribute": (InvalidWrite, "has these twice", {"attributes": {"data": "x"}}),
    "no group": (InvalidWrite, "message group is the field 'a'", {"grouped_by": "a"}),
    "an id among the attributes": (InvalidWrite, "twice", {"attributes": {"id": "secret"}}),
    "an attribute of another type": (InvalidWrite, "no consumer", {"attributes": {"time": 1}}),
    "over 255 KiB": (TooLarge, "too large for the topic", {"data": ["secret", "x" * 261_120]}),
}


@pytest.mark.parametrize(("kind", "text", "change"), REFUSED.values(), ids=REFUSED)
def test_an_event_that_no_consumer_could_read_is_refused_by_its_name_without_its_data(
    kind: type[OnceError], text: str, change: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"event_type": "order.placed", "data": {}, "key": "o-1", **change}
    with pytest.raises(kind, match=text) as caught:
        producer().event(**given)
    assert str(caught.value).startswith(given["event_type"])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arn", "event", "text"),
    [
        (FIFO, producer().event("moved", {}, key="1"), "has no message group, .* in ordered_by="),
        ("arn", OutgoingEvent("1", "/once/orders", "moved", "{}"), "those are of consumers"),
    ],
)
def test_no_event_is_published_beside_one_that_the_topic_may_not_have(
    arn: str, event: OutgoingEvent, text: str
) -> None:
    topic = Topic()
    with pytest.raises(InvalidWrite, match=f"moved '{event.id}' .*{text}"):
        producer(topic, arn).publish([moved(1), event])
    assert topic.batches == []


@quick
@given(
    st.lists(st.sampled_from([0, 10, 60_000, 200_000]), max_size=25),
    st.lists(st.sets(st.integers(0, 9), max_size=9).map(failing), max_size=4),
    st.sampled_from(["arn", FIFO]),
)
def test_every_event_is_published_and_only_failed_entries_are_sent_again(
    sizes: list[int], answers: list[Any], arn: str
) -> None:
    topic, events = Topic(*answers), [moved(n, "ab"[n % 2], size) for n, size in enumerate(sizes)]
    producer(topic, arn).publish(iter(events))
    taken = [entry["Message"] for _, entry in topic.taken]
    assert sorted(taken) == sorted(event.body for event in events)
    assert {each for each, _ in topic.taken} <= {arn}
    for entries in topic.batches:
        assert len(entries) <= Limits.TOPIC_BATCH
        assert sum(len(entry["Message"]) for entry in entries) < Limits.TOPIC_MESSAGE_BYTES
    if arn == FIFO:
        for group in "ab":
            own = [event.body for event in events if event.group == group]
            assert [body for body in taken if body in own] == own


def test_a_retry_has_the_same_entry_and_waits_longer_each_time() -> None:
    pauses: list[float] = []
    topic = Topic(*[failing({0})] * 3)
    producer(topic, FIFO, pauses).publish([moved(1)])
    assert [*map(list, topic.batches)] == [[topic.taken[0][1]]] * 4
    assert len(pauses) == 3
    assert all(0 <= pause <= 0.2 * 2**n for n, pause in enumerate(pauses, 1))
    one, other = (topic_entry(moved(n)) for n in (1, 2))
    assert one["MessageGroupId"] == other["MessageGroupId"] == "a"
    assert one["MessageDeduplicationId"] != other["MessageDeduplicationId"]


def topic_entry(event: OutgoingEvent) -> Any:
    topic = Topic()
    producer(topic, FIFO).publish([event])
    return topic.taken[0][1]


def test_two_events_of_a_fifo_topic_share_a_deduplication_id_only_if_they_are_copies() -> None:
    pairs = [("a#b", "c"), ("a", "b#c"), ("a", "ä" * 300), ("a", "c")]
    made = [OutgoingEvent(name, source, "moved", "{}", "g") for source, name in pairs]
    ids = [topic_entry(event)["MessageDeduplicationId"] for event in [*made, *made]]
    assert ids[:4] == ids[4:]
    assert len({*ids}) == 4
    assert all(len(each) <= 128 and each.isascii() for each in ids)


def test_attempts_count_from_the_last_event_that_the_topic_took() -> None:
    topic = Topic(failing({1}), *[failing({0})] * 5)
    producer(topic).publish([moved(1), moved(2)])
    assert (len(topic.taken), len(topic.batches)) == (2, 7)


def test_an_event_with_a_reference_holds_no_data() -> None:
    event = producer().event("moved", {"secret": 1}, key="k", dataref="s3://b/producers/k")
    body = json.loads(event.body)
    assert (body["dataref"], "data" in body) == ("s3://b/producers/k", False)


def lose(entries: Any) -> Any:
    raise ReadTimeoutError(endpoint_url="sns")


def deny(entries: Any) -> Any:
    raise ClientError({"Error": {"Code": "AuthorizationError"}}, "PublishBatch")


ENDS = {
    "an entry fails again and again": (failing({0}), 6, "InternalError", None),
    "an entry is refused": (failing({0}, "InvalidParameter"), 1, "InvalidParameter", None),
    "a call is lost": (lose, 1, "ReadTimeoutError", ReadTimeoutError),
    "a call is denied": (deny, 1, "AuthorizationError", ClientError),
}


@pytest.mark.parametrize(("reply", "calls", "code", "cause"), ENDS.values(), ids=ENDS)
def test_events_that_are_not_published_are_named_and_can_be_published_again(
    reply: Any, calls: int, code: str, cause: type[Exception] | None
) -> None:
    topic, events = Topic(always=reply), [moved(1), moved(2)]
    with pytest.raises(NotPublished, match=rf"moved 'e-1' \(.*{code}\), 1 more") as caught:
        producer(topic, FIFO).publish(events)
    assert caught.value.events == tuple(events)  # the second one waits for the first of its group
    assert len(topic.batches) == calls
    assert isinstance(caught.value.__cause__, cause or type(None))
    again = Topic()
    producer(again, FIFO).publish(caught.value.events)
    assert [json.loads(e["Message"])["id"] for _, e in again.taken] == ["e-1", "e-2"]


def test_other_events_are_published_beside_refused_ones_of_which_ten_are_named() -> None:
    events = [moved(n) for n in range(40)]
    topic = Topic(*[failing({1, 3, 5, 7}, "InvalidParameter")] * 4)
    with pytest.raises(NotPublished, match=r"'e-1' .*'e-21' .*, 6 more") as caught:
        producer(topic).publish(events)
    assert len(caught.value.events) == 16
    assert len(topic.taken) == 24
    assert topic.sizes == [10] * 4


def test_it_needs_none_of_the_modules_that_a_function_has() -> None:
    code = "import once.producer, sys; print(*sys.modules)"
    found = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"boto3", "aws_lambda_powertools", "once.consumer", "once.ops"} & {*found}
