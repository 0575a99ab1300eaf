"""`dlq redrive` where SQS takes only part of it, or nothing; and how fast it sends."""

import json
import time
from typing import Any

import pytest

from once.ops.aws.batch_calls import ATTEMPTS
from once.ops.dead_letters.redrive import RateLimiter
from tests.ops.letters import Shop, note
from tests.ops.support import OK, answer_with, refusal, run

REDRIVE = ("dlq", "redrive", "--rate", "1000")


def number(name: str, output: str) -> str:
    """A number of the summary."""
    [row] = [line for line in output.splitlines() if line.startswith(f"│ {name}  ")]
    return row.strip("│").split("│")[1].strip()


THROTTLED = {"Code": "Throttled", "SenderFault": False}
REFUSED = {"Code": "InvalidParameter", "Message": "too odd", "SenderFault": True}


def failing(failure: dict[str, Any], *positions: int, times: int = 1) -> Any:
    """Let some entries of a batch fail, so many times; the others are answered as they are."""
    left = [times]

    def answer(params: Any) -> Any:
        if not left[0]:
            return None
        left[0] -= 1
        entries = json.loads(params["body"])["Entries"]
        failed = [
            {"Id": entry["Id"], **failure} for entry in entries if int(entry["Id"]) in positions
        ]
        return OK, {"Successful": [], "Failed": failed}

    return answer


def test_a_message_that_is_too_large_for_any_call_stays_alone(shop: Shop) -> None:
    def answer(params: Any) -> Any:
        return refusal("BatchRequestTooLong", "no") if b"id-a" in params["body"] else None

    shop.give_up(note("a"), note("b"), error=ValueError())
    answer_with("sqs.SendMessageBatch", answer)
    result = run("dlq", "redrive", "--rate", "1")
    assert result.exit_code == 1
    assert "not sent: An error occurred" in result.stderr
    assert [json.loads(message["Body"]) for message in shop.waiting()] == [note("b")]
    assert [json.loads(one.original.body) for one in shop.letters()] == [note("a")]


def test_an_entry_that_was_throttled_is_sent_again(shop: Shop) -> None:
    shop.give_up(note("a"), note("b"), error=ValueError())
    answer_with("sqs.SendMessageBatch", failing(THROTTLED, 0, 1))
    assert run(*REDRIVE).exit_code == 0
    assert len(shop.waiting()) == 2
    assert shop.letters() == []


def test_an_entry_that_was_refused_stays_and_is_told(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    letter = shop.letter()
    answer_with("sqs.SendMessageBatch", failing(REFUSED, 0))
    result = run(*REDRIVE)
    assert result.exit_code == 1
    assert f"{letter.message_id}: not sent: InvalidParameter too odd" in result.stderr
    assert number("failed", result.stdout) == "1"
    assert shop.letter().message_id == letter.message_id
    assert shop.waiting() == []


def test_an_entry_that_is_throttled_for_ever_stays_and_is_told(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    answer_with("sqs.SendMessageBatch", failing(THROTTLED, 0, times=ATTEMPTS))
    result = run(*REDRIVE)
    assert result.exit_code == 1
    assert "not sent: Throttled" in result.stderr
    assert shop.hidden() == 0


def test_a_letter_that_was_not_deleted_is_told_and_is_a_duplicate_next_time(shop: Shop) -> None:
    shop.give_up(note("a"), error=ValueError())
    answer_with("sqs.DeleteMessageBatch", failing(REFUSED, 0))
    result = run(*REDRIVE)
    assert result.exit_code == 1
    assert "sent, but not deleted" in result.stderr
    shop.work_off()
    assert run(*REDRIVE).exit_code == 0
    shop.work_off()
    assert shop.counted() == {"a": 1}
    assert shop.letters() == []


def test_a_call_that_is_refused_ends_the_run_with_what_was_done_so_far(shop: Shop) -> None:
    shop.give_up(*(note(f"n-{n}") for n in range(12)), error=ValueError())
    answers = [None]
    answer_with(
        "sqs.SendMessageBatch",
        lambda params: answers.pop() if answers else refusal("AccessDenied", "no"),
    )
    result = run(*REDRIVE)
    assert result.exit_code == 1
    assert number("sent back", result.stdout) == "10"
    assert "have this action granted" in result.stderr
    assert shop.hidden() == 0
    assert len(shop.letters()) == 2


def test_messages_leave_no_faster_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    pace = RateLimiter(2)
    for _ in range(4):
        pace.wait(pace.max_per_call)
        now[0] += 0.25
    assert slept == [0.75] * 3
    assert [RateLimiter(rate).max_per_call for rate in (0.1, 3, 10, 500)] == [1, 3, 10, 10]
