"""Redrive of dead letters of a FIFO queue: groups and order are kept."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from once.failures.quarantine import text
from once.ops.dead_letters import redrive
from once.ops.dead_letters.letter import DeadLetterQueue
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive import RateLimiter, Redriver
from once.schema import DeadLetter
from tests.ops.letters import Shop, note


@dataclass
class Queues:
    sqs: Any
    box: DeadLetterQueue

    def add(self, name: str, group: str) -> None:
        self.sqs.send_message(
            QueueUrl=self.box.url,
            MessageBody=json.dumps(note(name)),
            MessageAttributes={DeadLetter.REASON: text("permanent")},
            MessageGroupId=group,
            MessageDeduplicationId=name,
        )

    def redrive(self) -> None:
        with QueueWalk(self.sqs, [self.box], limit=100) as walk:
            redriver = Redriver(self.sqs, RateLimiter(1000), walk.forget)
            for page in walk.pages():
                redriver.send(page)

    def arrived(self) -> list[tuple[str, str]]:
        """The messages in the queue: groups and names."""
        answer = self.sqs.receive_message(
            QueueUrl=self.box.source_url, MaxNumberOfMessages=10, AttributeNames=["All"]
        )
        return [
            (message["Attributes"]["MessageGroupId"], json.loads(message["Body"])["data"]["name"])
            for message in answer.get("Messages", [])
        ]


@pytest.fixture
def queues(shop: Shop) -> Queues:
    url, dead = (
        shop.sqs.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
        for name in ("orders.fifo", "orders-dead.fifo")
    )
    return Queues(shop.sqs, DeadLetterQueue("orders", dead, url))


def test_letters_keep_their_groups_and_their_order(queues: Queues) -> None:
    for number in range(4):
        queues.add(f"a-{number}", "a")
        queues.add(f"b-{number}", "b")
    queues.redrive()
    found = queues.arrived()
    for group in "ab":
        names = [name for other, name in found if other == group]
        assert names == [f"{group}-{number}" for number in range(4)]


def test_each_message_of_a_fifo_queue_is_sent_in_a_call_of_its_own(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Within one call, later messages would overtake a throttled one.
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


def test_letter_that_is_sent_twice_is_deduplicated_by_sqs(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(sqs: Any, letters: Any) -> dict[str, str]:
        return {letters[0].message_id: "killed"}

    queues.add("a", "g")
    with monkeypatch.context() as patch:
        patch.setattr(redrive, "delete_letters", killed)
        queues.redrive()
    queues.redrive()
    assert queues.arrived() == [("g", "a")]
