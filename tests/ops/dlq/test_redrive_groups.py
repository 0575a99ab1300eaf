"""`dlq redrive` of messages with a group: fair ones, and those of FIFO queues in their order."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from once.failures.quarantine import text
from once.ops.aws.clients import client
from once.ops.dead_letters import redrive
from once.ops.dead_letters.group_order import WAITS
from once.ops.dead_letters.letter import DeadLetterQueue, Letter
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive import RateLimiter, Redriver, RedriveResult
from once.ops.dead_letters.redriven_message import redriven_message
from once.schema import DeadLetter
from tests.ops.letters import Shop
from tests.ops.notes import note
from tests.ops.support import (
    answer_with,
    refusal,
    requests_of,
)


@dataclass
class Queues:
    """A queue and its dead-letter queue."""

    sqs: Any
    box: DeadLetterQueue

    def add(self, name: str, group: str) -> None:
        fifo = {"MessageDeduplicationId": name} if self.box.is_fifo else {}
        self.sqs.send_message(
            QueueUrl=self.box.url,
            MessageBody=json.dumps(note(name)),
            MessageAttributes={DeadLetter.REASON: text("permanent")},
            MessageGroupId=group,
            **fifo,
        )

    def redrive(self) -> RedriveResult:
        sqs = client("sqs")
        with QueueWalk(sqs, [self.box], limit=100) as walk:
            redriver = Redriver(sqs, RateLimiter(1000), walk.forget)
            for page in walk.pages():
                redriver.send(page)
        return redriver.result

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
def fifo(shop: Shop) -> Queues:
    return queues(shop, ".fifo", {"FifoQueue": "true"})


def queues(shop: Shop, suffix: str, attributes: Any) -> Queues:
    url, dead = (
        shop.sqs.create_queue(QueueName=name + suffix, Attributes=attributes)["QueueUrl"]
        for name in ("tenants", "tenants-dead")
    )
    return Queues(shop.sqs, DeadLetterQueue("orders", dead, url))


def test_a_letter_of_a_standard_queue_keeps_its_message_group(shop: Shop) -> None:
    standard = queues(shop, "", {})
    standard.add("a", "tenant-1")
    standard.redrive()
    assert standard.arrived() == [("tenant-1", "a")]


def test_letters_keep_their_groups_and_their_order(fifo: Queues) -> None:
    for number in range(4):
        fifo.add(f"a-{number}", "a")
        fifo.add(f"b-{number}", "b")
    fifo.redrive()
    found = fifo.arrived()
    for group in "ab":
        names = [name for other, name in found if other == group]
        assert names == [f"{group}-{number}" for number in range(4)]


def test_each_message_of_a_fifo_queue_is_sent_in_a_call_of_its_own(fifo: Queues) -> None:
    # Within one call, later messages would overtake a throttled one.
    asked = requests_of("sqs.SendMessageBatch")
    fifo.add("a", "g")
    fifo.add("b", "g")
    fifo.redrive()
    assert [len(request["Entries"]) for request in asked] == [1, 1]


@pytest.mark.parametrize("fault", ["refused", "impossible"])
def test_after_a_letter_that_is_not_sent_its_group_stays_in_order(
    fifo: Queues, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    for name, group in (("a-1", "a"), ("a-2", "a"), ("a-3", "a"), ("b-1", "b")):
        fifo.add(name, group)
    with monkeypatch.context() as patch:
        if fault == "refused":
            answer_with("sqs.SendMessageBatch", refuse_second)
        else:
            patch.setattr(redrive, "redriven_message", fail_second)
        first, *others = fifo.redrive().failed
    assert fifo.arrived() == [("a", "a-1"), ("b", "b-1")]
    assert WAITS not in first
    assert [said.split(": ", 1)[1] for said in others] == [WAITS]


def refuse_second(params: Any) -> Any:
    return refusal("BatchRequestTooLong") if b"a-2" in params["body"] else None


def fail_second(letter: Letter, *args: Any, **more: Any) -> Any:
    if "a-2" in letter.original.body:
        raise ValueError
    return redriven_message(letter, *args, **more)


def test_letter_that_is_sent_twice_is_deduplicated_by_sqs(
    fifo: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(sqs: Any, letters: Any) -> dict[str, str]:
        return {letters[0].message_id: "killed"}

    fifo.add("a", "g")
    with monkeypatch.context() as patch:
        patch.setattr(redrive, "delete_letters", killed)
        fifo.redrive()
    fifo.redrive()
    assert fifo.arrived() == [("g", "a")]
