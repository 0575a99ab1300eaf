"""`dlq redrive` while SQS refuses or throttles calls; its rate limit."""

import json
import time
from typing import Any

import pytest

from once.ops.aws.clients import ATTEMPTS, RateLimiter
from tests.ops.letters import Shop
from tests.ops.notes import note
from tests.ops.output import numbers, stderr_of, stdout_of, words
from tests.ops.support import (
    REFUSED_ENTRY,
    THROTTLED_ENTRY,
    answer_with,
    fail_entries,
    refusal,
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
