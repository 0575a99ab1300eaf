"""The answer to Lambda: always given, and about messages of its batch only.

Lambda takes an empty answer for the success of the whole batch. It delivers the whole batch again
if the answer is malformed, or names a message that is not in the batch.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from once.testing import inject, never_sent, refused
from tests.once.batch.batches import message
from tests.once.batch.function import Function
from tests.once.support import quick, record

KINDS: dict[str, Any] = {
    "good": message("good"),
    "other content": message("good", amount=7),
    "fails": message("fail"),
    "refuses": message("refuse"),
    "unreadable": record("{", "unreadable"),
    "without a key": record("{}", "without a key"),
}


def batch(kinds: Sequence[str], receive_count: int = 1) -> list[dict[str, Any]]:
    return [
        record(KINDS[kind]["body"], f"m-{number}", receive_count=receive_count)
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("service", "operation", "reports"),
    [
        ("dynamodb", "TransactWriteItems", ["m-1", "m-2"]),
        ("sqs", "SendMessage", ["m-0", "m-1"]),
        ("sqs", "ChangeMessageVisibility", ["m-1"]),
    ],
)
@pytest.mark.parametrize("fault", [never_sent(), refused("AccessDenied", status=403)])
def test_a1_the_function_answers_if_a_service_does_not(
    function: Function, service: str, operation: str, reports: list[str], fault: Any
) -> None:
    client = getattr(function.aws.runtime, service)
    with inject(client, operation, *[fault] * 50):
        function.run(*batch(["unreadable", "fails", "good"]), reports=reports)


@pytest.mark.parametrize("remaining_ms", [0, 2_000, 5_001, 30_000])
@pytest.mark.parametrize("kinds", [[], ["good"], ["good", "fails"], [*KINDS]], ids=len)
def test_a1_answers_without_time(function: Function, kinds: list[str], remaining_ms: int) -> None:
    function.context.remaining_ms = remaining_ms
    is_late = remaining_ms < 5_000
    failing = [f"m-{n}" for n, kind in enumerate(kinds) if is_late or kind == "fails"]
    function.run(*batch(kinds), reports=failing)


def test_a2_an_answer_names_failed_messages_in_their_order(function: Function) -> None:
    @settings(quick, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.sampled_from([*KINDS]), max_size=12), st.integers(1, 6))
    def check(kinds: list[str], receive_count: int) -> None:
        is_last = receive_count >= 5
        failing = [f"m-{n}" for n, kind in enumerate(kinds) if kind == "fails" and not is_last]
        function.run(*batch(kinds, receive_count), reports=failing)

    check()
