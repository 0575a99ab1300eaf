"""Dead letters of a FIFO queue: they go back in their groups and in their order."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from once.ops.dead_letters import redrive
from once.ops.dead_letters.letter import DeadLetterQueue
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive import RateLimiter, Redriver
from tests.ops.letters import Shop, note
from tests.ops.support import Cloud

REASON = {"once-reason": {"DataType": "String", "StringValue": "permanent"}}


@dataclass
class Queues:
    sqs: Any
    box: DeadLetterQueue

    def add(self, name: str, group: str) -> None:
        self.sqs.send_message(
            QueueUrl=self.box.url,
            MessageBody=json.dumps(note(name)),
            MessageAttributes=REASON,
            MessageGroupId=group,
            MessageDeduplicationId=name,
        )

    def redrive(self) -> None:
        with QueueWalk(self.sqs, [self.box], limit=100) as walk:
            redriver = Redriver(self.sqs, RateLimiter(1000), walk.forget)
            for page in walk.pages():
                redriver.send(page)

    def arrived(self) -> list[tuple[str, str]]:
        """What is in the queue: groups and names."""
        answer = self.sqs.receive_message(
            QueueUrl=self.box.source_url, MaxNumberOfMessages=10, AttributeNames=["All"]
        )
        return [
            (message["Attributes"]["MessageGroupId"], json.loads(message["Body"])["data"]["name"])
            for message in answer.get("Messages", [])
        ]


@pytest.fixture
def queues(cloud: Cloud) -> Iterator[Queues]:
    with Shop(cloud) as shop:
        url, dead = (
            shop.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
            for name in ("orders.fifo", "orders-dead.fifo")
        )
        yield Queues(shop.sqs, DeadLetterQueue("orders", dead, url))


def test_letters_go_back_in_their_groups_and_in_their_order(queues: Queues) -> None:
    for number in range(4):
        queues.add(f"a-{number}", "a")
        queues.add(f"b-{number}", "b")
    queues.redrive()
    found = queues.arrived()
    assert [name for group, name in found if group == "a"] == [f"a-{n}" for n in range(4)]
    assert [name for group, name in found if group == "b"] == [f"b-{n}" for n in range(4)]


def test_messages_of_a_fifo_queue_are_sent_one_by_one(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one call, those after one that was throttled would overtake it."""
    sizes: list[int] = []
    send = queues.sqs.send_message_batch

    def counted(**call: Any) -> Any:
        sizes.append(len(call["Entries"]))
        return send(**call)

    monkeypatch.setattr(queues.sqs, "send_message_batch", counted)
    queues.add("a", "g")
    queues.add("b", "g")
    queues.redrive()
    assert sizes == [1, 1]


def test_a_letter_that_is_sent_twice_is_taken_once_by_sqs_already(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.add("a", "g")
    with monkeypatch.context() as patch:
        patch.setattr(
            redrive, "delete_letters", lambda sqs, letters: {letters[0].message_id: "killed"}
        )
        queues.redrive()
    queues.redrive()
    assert queues.arrived() == [("g", "a")]
