"""`outbox republish --to`: a consumer receives events from before its deployment."""

import json
from collections import Counter

import pytest

from once.events.outgoing import OutgoingEvent
from once.names import EVENT_TYPE_ATTRIBUTE
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.outbox import queue_sender
from tests.ops.cloud import Cloud
from tests.ops.outboxes import commit, event
from tests.ops.output import numbers, stderr_of, stdout_of
from tests.ops.support import REFUSED_ENTRY, fail_entries, requests_of

PAID = "payment.captured"
TO = ("outbox", "republish", "--since", "2h", "--to")


@pytest.fixture
def paid(cloud: Cloud) -> list[str]:
    """Two committed events of a type that inventory takes; besides, another type and an old one."""
    bodies = [event("orders#a", 0, PAID), event("orders#b", 1, PAID)]
    commit(cloud, "orders#a", bodies[0])
    commit(cloud, "orders#b", event("orders#b", 0, "order.closed"), bodies[1])
    commit(cloud, "orders#c", event("orders#c", 0, PAID), age=3)
    return bodies


def test_events_of_its_types_reach_its_queue_only(cloud: Cloud, paid: list[str]) -> None:
    found = numbers(stdout_of(*TO, "inventory"))
    assert found[PAID] == "2"
    assert "order.closed" not in found
    messages = cloud.sqs.receive_message(
        QueueUrl=cloud.queue("inventory"), MessageAttributeNames=["All"], MaxNumberOfMessages=10
    )["Messages"]
    assert Counter(message["Body"] for message in messages) == Counter(paid)
    for message in messages:
        assert message["MessageAttributes"][EVENT_TYPE_ATTRIBUTE]["StringValue"] == PAID
    assert cloud.take("orders") == {}


@pytest.mark.parametrize(
    ("options", "events"), [("--until 90m", "0"), ("--consumer inventory", "0"), ("--dry-run", "2")]
)
def test_other_options_apply(cloud: Cloud, paid: list[str], options: str, events: str) -> None:
    assert numbers(stdout_of(*TO, "inventory", *options.split()))["events"] == events
    assert cloud.take("inventory") == {}


def test_a_fifo_queue_gets_each_event_in_its_group_and_again_in_a_second_run(
    cloud: Cloud,
) -> None:
    paid = [event(f"orders#{n}", 0, PAID, data={"order_id": n}) for n in range(2)]
    for number, body in enumerate(paid):
        commit(cloud, f"orders#{number}", body)
    cloud.make_fifo("inventory", "order_id", external=[])
    cloud.set_types("inventory", events=[PAID], grouped_by="order_id")
    asked = requests_of("sqs.SendMessageBatch")
    for _ in range(2):
        assert numbers(stdout_of(*TO, "inventory"))[PAID] == "2"
    entries = [entry for request in asked for entry in request["Entries"]]
    groups = {entry["MessageBody"]: entry["MessageGroupId"] for entry in entries}
    assert groups == {body: str(number) for number, body in enumerate(paid)}
    assert len({entry["MessageDeduplicationId"] for entry in entries}) == 4


def test_an_event_without_its_group_is_not_sent_to_a_fifo_queue(
    cloud: Cloud, paid: list[str]
) -> None:
    cloud.make_fifo("inventory", "parcel", external=[])
    cloud.set_types("inventory", events=[PAID], grouped_by="parcel")
    asked = requests_of("sqs.SendMessageBatch")
    assert "is not what its consumer writes" in stderr_of(*TO, "inventory")
    assert asked == []


def test_forged_event_is_not_sent(cloud: Cloud) -> None:
    forged = {**json.loads(event("orders#a", 0, PAID)), "source": "/once/payments"}
    commit(cloud, "orders#a", json.dumps(forged))
    commit(cloud, "orders#b", event("orders#b", 0, PAID))
    assert "is not what its consumer writes" in stderr_of(*TO, "inventory")
    assert cloud.take("inventory") == {event("orders#b", 0, PAID): 1}


def test_large_events_are_sent_in_several_calls(cloud: Cloud) -> None:
    events = [OutgoingEvent(f"{n}", "/once/orders", PAID, f"{n}" * 240_000) for n in range(6)]
    asked = requests_of("sqs.SendMessageBatch")
    queue_sender(client("sqs"), Deployment.find().consumer("inventory"))(events)
    assert cloud.take("inventory") == Counter(event.body for event in events)
    sizes = [sum(len(entry["MessageBody"]) for entry in request["Entries"]) for request in asked]
    assert sizes == [4 * 240_000, 2 * 240_000]


def test_event_that_the_queue_refuses_ends_the_command(cloud: Cloud, paid: list[str]) -> None:
    fail_entries("sqs.SendMessageBatch", REFUSED_ENTRY)
    assert "the queue of inventory did not take" in stderr_of(*TO, "inventory")


def test_consumer_without_events_of_other_consumers_is_refused(cloud: Cloud) -> None:
    cloud.set_types("orders", external=["order.placed"], events=[])
    assert "'orders' takes no events of other consumers" in stderr_of(*TO, "orders")
    assert "no consumer 'refunds'" in stderr_of(*TO, "refunds")
