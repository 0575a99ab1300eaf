"""`dlq redrive` while SQS refuses or throttles calls; its rate limit; and FIFO queues."""

import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from once.failures.quarantine import text
from once.ops.aws.batch_calls import ATTEMPTS
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
from tests.ops.output import numbers, stderr_of, stdout_of, words
from tests.ops.support import (
    REFUSED_ENTRY,
    THROTTLED_ENTRY,
    answer_with,
    fail_entries,
    refusal,
    requests_of,
    run,
)

REDRIVE = ("dlq", "redrive", "--rate", "1000", "--yes", "--returning")


def test_only_the_message_that_is_too_large_for_a_call_stays(shop: Shop) -> None:
    def answer(params: Any) -> Any:
        return refusal("BatchRequestTooLong") if b"id-a" in params["body"] else None

    shop.fail("a", "b")
    answer_with("sqs.SendMessageBatch", answer)
    assert "not sent: An error occurred" in stderr_of("dlq", "redrive", "--rate", "1", "--yes")
    assert [json.loads(message["Body"]) for message in shop.waiting()] == [note("b")]
    assert [json.loads(one.original.body) for one in shop.letters()] == [note("a")]


def test_throttled_entries_are_sent_again(shop: Shop) -> None:
    shop.fail("a", "b")
    fail_entries("sqs.SendMessageBatch", THROTTLED_ENTRY)
    stdout_of(*REDRIVE)
    assert len(shop.waiting()) == 2
    assert shop.letters() == []


@pytest.mark.parametrize(
    ("failure", "times", "said"),
    [
        pytest.param(REFUSED_ENTRY, 1, "InvalidParameter too odd", id="refused"),
        pytest.param(THROTTLED_ENTRY, ATTEMPTS, "Throttled", id="throttled in every attempt"),
    ],
)
def test_entry_that_is_not_accepted_stays_and_is_reported(
    shop: Shop, failure: dict[str, Any], times: int, said: str
) -> None:
    shop.fail("a")
    letter = shop.letter()
    fail_entries("sqs.SendMessageBatch", failure, times=times)
    result = run(*REDRIVE)
    assert result.exit_code == 1
    assert f"{letter.message_id}: not sent: {said}" in result.stderr
    assert numbers(result.stdout)["failed"] == "1"
    assert shop.hidden() == 0
    assert shop.letter().message_id == letter.message_id
    assert shop.waiting() == []


def test_a_letter_that_was_not_deleted_is_told_and_is_a_duplicate_next_time(shop: Shop) -> None:
    shop.fail("a")
    fail_entries("sqs.DeleteMessageBatch", REFUSED_ENTRY)
    assert "sent, but not deleted" in stderr_of(*REDRIVE)
    shop.work_off()
    stdout_of(*REDRIVE)
    shop.work_off()
    assert shop.counted() == {"a": 1}
    assert shop.letters() == []


def test_refused_call_ends_the_redrive_with_its_summary(shop: Shop) -> None:
    shop.fail(*(f"n-{n}" for n in range(12)))
    answers = [None]
    answer_with(
        "sqs.SendMessageBatch",
        lambda params: answers.pop() if answers else refusal("AccessDenied"),
    )
    result = run(*REDRIVE)
    assert result.exit_code == 1
    assert numbers(result.stdout)["sent back"] == "10"
    assert "have this action granted" in result.stderr
    assert shop.hidden() == 0
    assert len(shop.letters()) == 2


@pytest.mark.parametrize(
    ("operation", "said", "sent"),
    [
        ("sqs.SendMessageBatch", "perhaps sent", 0),
        ("sqs.DeleteMessageBatch", "sent, and perhaps not deleted", 2),
    ],
)
def test_interrupted_redrive_says_what_is_certain(
    shop: Shop, operation: str, said: str, sent: int
) -> None:
    def interrupt(params: Any) -> None:
        raise KeyboardInterrupt

    shop.fail("a", "b")
    ids = [letter.message_id for letter in shop.letters()]
    answer_with(operation, interrupt)
    result = run(*REDRIVE)
    assert result.exit_code == 130
    text = words(result.stderr)
    assert f"stopped: {sent} certainly sent back; in doubt: 2; all others" in text
    assert all(f"{one}: {said}" in text for one in ids)
    assert numbers(result.stdout)["sent back"] == str(sent)
    assert shop.hidden() == 0
    assert len(shop.letters()) == 2


def test_rate_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    limiter = RateLimiter(2)
    for _ in range(4):
        limiter.wait(limiter.max_per_call)
        now[0] += 0.25
    assert slept == [0.75] * 3
    assert [RateLimiter(rate).max_per_call for rate in (0.1, 3, 10, 500)] == [1, 3, 10, 10]


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
