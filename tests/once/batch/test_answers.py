"""The answer to Lambda: always there, of the one right form, and about messages of this batch only.

No answer at all acknowledges the whole batch. A malformed one, or one that names what is not in the
batch, brings the whole batch back.
"""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from once.handlers.transaction import Transaction
from once.testing import FakeAws, FakeContext, inject, never_sent, refused
from tests.in_memory import Start
from tests.once.support import Note, SoldOut, consumer_of, count, note, quick, record


def handle(event: Note, tx: Transaction) -> None:
    if event.name == "fails":
        raise ValueError
    if event.name == "refuses":
        raise SoldOut("nobody answers this")
    count(event, tx)


CONSUMER = consumer_of(handle)
BODIES = {
    "good": json.dumps(note("good", event_id="good")),
    "other content": json.dumps(note("good", 7, event_id="good")),
    "fails": json.dumps(note("fails", event_id="fails")),
    "refuses": json.dumps(note("refuses", event_id="refuses")),
    "unreadable": "{",
    "without a key": "{}",
}


def answered(aws: FakeAws, records: Sequence[Any], remaining_ms: int = 30_000) -> list[str]:
    """Let the function answer, check the answer's form, and return the ids that it names."""
    answer: Any = CONSUMER.bound_to(aws.runtime)({"Records": records}, FakeContext(remaining_ms))
    assert json.loads(json.dumps(answer)) == answer
    assert list(answer) == ["batchItemFailures"]
    assert all(list(failure) == ["itemIdentifier"] for failure in answer["batchItemFailures"])
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def batch(kinds: Sequence[str], receive_count: int = 1) -> list[dict[str, Any]]:
    return [
        record(BODIES[kind], f"m-{number}", receive_count=receive_count)
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("dynamodb", "TransactWriteItems"),
        ("sqs", "SendMessage"),
        ("sqs", "ChangeMessageVisibility"),
    ],
)
@pytest.mark.parametrize("fault", [never_sent(), refused("AccessDenied", status=403)])
def test_a1_whatever_does_not_answer_the_function_does(
    start: Start, service: str, operation: str, fault: Any
) -> None:
    aws = start(CONSUMER)
    with inject(getattr(aws.runtime, service), operation, *[fault] * 50):
        assert "m-1" in answered(aws, batch(["unreadable", "fails", "good"]))


@pytest.mark.parametrize("remaining_ms", [0, 2_000, 5_001, 30_000])
@pytest.mark.parametrize("kinds", [[], ["good"], ["good", "fails"], [*BODIES]], ids=len)
def test_a1_however_little_time_is_left_there_is_an_answer(
    start: Start, kinds: list[str], remaining_ms: int
) -> None:
    named = answered(start(CONSUMER), batch(kinds), remaining_ms)
    assert len(named) == (len(kinds) if remaining_ms < 5_000 else kinds.count("fails"))


def test_a2_an_answer_names_messages_of_its_batch_once_each_and_in_their_order(
    start: Start,
) -> None:
    aws = start(CONSUMER)

    @settings(quick, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.sampled_from([*BODIES]), max_size=12), st.integers(1, 6))
    def check(kinds: list[str], receive_count: int) -> None:
        named = answered(aws, batch(kinds, receive_count))
        retried = receive_count < 5
        assert named == [f"m-{n}" for n, kind in enumerate(kinds) if kind == "fails" and retried]

    check()
