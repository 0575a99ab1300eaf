"""`outbox republish --to`: a consumer gets events that were published before its deployment."""

import json
from collections import Counter
from typing import Any

import pytest

from once.events.outgoing import OutgoingEvent
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.outbox._direct_delivery import queue_sender
from once.schema import EVENT_TYPE_ATTRIBUTE
from tests.ops.outboxes import event, numbers
from tests.ops.support import OK, Cloud, answer_with, run

PAID = "payment.captured"
TO = ("outbox", "republish", "--since", "2h", "--to")


@pytest.fixture
def paid(cloud: Cloud, commit: Any) -> list[str]:
    """Committed: two events of the type that inventory takes, one of another, one too early."""
    bodies = [event("orders#a", 0, PAID), event("orders#b", 1, PAID)]
    commit("orders#a", bodies[0])
    commit("orders#b", event("orders#b", 0, "order.closed"), bodies[1])
    commit("orders#c", event("orders#c", 0, PAID), age=3)
    return bodies


def test_events_of_its_types_reach_its_queue_and_no_other(cloud: Cloud, paid: list[str]) -> None:
    result = run(*TO, "inventory")
    assert result.exit_code == 0, result.output
    assert numbers(result.stdout)[PAID] == "2"
    assert "order.closed" not in numbers(result.stdout)
    assert cloud.take("inventory") == Counter(paid)
    assert cloud.take("orders") == {}


def test_the_attribute_says_the_type(cloud: Cloud, paid: list[str]) -> None:
    run(*TO, "inventory")
    answer = cloud.sqs.receive_message(
        QueueUrl=cloud.queue("inventory"), MessageAttributeNames=["All"], MaxNumberOfMessages=10
    )
    for message in answer["Messages"]:
        assert message["MessageAttributes"][EVENT_TYPE_ATTRIBUTE]["StringValue"] == PAID
    assert len(answer["Messages"]) == len(paid)


def test_only_what_the_other_options_choose_is_sent(cloud: Cloud, paid: list[str]) -> None:
    assert run(*TO, "inventory", "--until", "90m").exit_code == 0
    assert run(*TO, "inventory", "--consumer", "inventory").exit_code == 0
    assert cloud.take("inventory") == {}


def test_a_dry_run_sends_nothing_and_counts(cloud: Cloud, paid: list[str]) -> None:
    result = run(*TO, "inventory", "--dry-run")
    assert numbers(result.stdout)["events"] == "2"
    assert cloud.take("inventory") == {}


def test_an_event_that_its_consumer_cannot_have_written_is_not_sent(
    cloud: Cloud,
    commit: Any,
) -> None:
    forged = {**json.loads(event("orders#a", 0, PAID)), "source": "/once/payments"}
    commit("orders#a", json.dumps(forged))
    commit("orders#b", event("orders#b", 0, PAID))
    result = run(*TO, "inventory")
    assert result.exit_code == 1
    assert "is not what its consumer writes" in result.stderr
    assert cloud.take("inventory") == {event("orders#b", 0, PAID): 1}


def test_large_events_are_sent_in_several_calls(cloud: Cloud) -> None:
    events = [OutgoingEvent(f"{n}", "/once/orders", PAID, f"{n}" * 240_000) for n in range(6)]
    sizes: list[int] = []

    def measured(params: Any) -> None:
        sent = json.loads(params["body"])["Entries"]
        sizes.append(sum(len(entry["MessageBody"]) for entry in sent))

    answer_with("sqs.SendMessageBatch", measured)
    queue_sender(client("sqs"), Deployment.find().consumer("inventory"))(events)
    assert cloud.take("inventory") == Counter(event.body for event in events)
    assert sizes == [4 * 240_000, 2 * 240_000]


def test_an_event_that_the_queue_does_not_take_ends_the_command(
    cloud: Cloud, paid: list[str]
) -> None:
    def refuse(params: Any) -> Any:
        entries = json.loads(params["body"])["Entries"]
        failed = [{"Id": entry["Id"], "SenderFault": True, "Code": "Refused"} for entry in entries]
        return OK, {"Successful": [], "Failed": failed}

    answer_with("sqs.SendMessageBatch", refuse)
    result = run(*TO, "inventory")
    assert result.exit_code == 1
    assert "the queue of inventory did not take" in result.stderr


def test_a_consumer_without_events_of_others_is_refused(cloud: Cloud) -> None:
    cloud.outputs["once-service"]["TakesOrders"] = '{"external": ["order.placed"], "events": []}'
    result = run(*TO, "orders")
    assert result.exit_code == 1
    assert "'orders' takes no events of other consumers" in result.stderr
    assert "no consumer 'refunds'" in run(*TO, "refunds").stderr
