"""Results of a check, and the checks of access: each can fail."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from proof.real_aws.checks import function_url, operators
from proof.real_aws.checks.check import Check, Result, Seen, passed, run_check, waiting
from tests.proof.real_aws.fake_stacks import client_error
from tests.proof.real_aws.fake_target import FakeTarget, Permitted, judged

PASSED, FAILED, NOT_OBSERVED = Result.PASSED, Result.FAILED, Result.NOT_OBSERVED
DENIED = client_error("AccessDenied", "Any")


@pytest.mark.parametrize(
    ("answers", "amount", "result"),
    [
        ((401, 200, 200), 1, PASSED),
        ((200, 200, 200), 1, FAILED),
        ((401, 403, 403), 1, FAILED),
        ((401, 200, 200), 2, FAILED),
        ((401, 200, 200), 0, FAILED),
    ],
)
def test_the_function_url_is_judged_by_its_answers(
    answers: tuple[int, ...], amount: int, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter(answers)
    monkeypatch.setattr(function_url, "post", lambda *_: next(given))
    assert judged("function-url", FakeTarget(amount_of=lambda _: amount)) is result


READS = ("describe_stacks", "get_queue_attributes", "get_item dedup")


@pytest.mark.parametrize(
    ("permitted", "result"),
    [
        (READS, PASSED),
        (READS[1:], FAILED),
        ((*READS, "send_message"), FAILED),
        ((*READS, "delete_item"), FAILED),
        ((*READS, "get_item counters"), FAILED),
    ],
)
def test_the_operators_are_judged_by_what_iam_denies(
    permitted: tuple[str, ...], result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Permitted(*permitted)
    monkeypatch.setattr(operators, "_assumed", lambda *_: lambda _: api)
    answers = {"create_role": {"Role": {"Arn": "arn"}}, "list_policies": {"Policies": []}}
    assert judged("operators", FakeTarget(answers)) is result


def test_a_role_that_cannot_be_assumed_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_assumed", lambda *_: None)
    answers = {"create_role": {"Role": {"Arn": "arn"}}, "list_policies": {"Policies": []}}
    assert judged("operators", FakeTarget(answers)) is FAILED


def observing(*observations: Seen | Exception) -> Check:
    def observe(_: Any) -> Iterator[Seen]:
        for each in observations:
            if isinstance(each, Exception):
                raise each
            yield each

    return Check("one", "this", 10, observe)


@pytest.mark.parametrize(
    ("one", "result", "text"),
    [
        (observing(waiting("a"), passed("b")), PASSED, "b"),
        (observing(waiting("a")), FAILED, "not within 10 s: a"),
        (observing(waiting("a", at_deadline=NOT_OBSERVED)), NOT_OBSERVED, "not within 10 s: a"),
        (observing(), FAILED, "nothing"),
        (observing(DENIED), NOT_OBSERVED, "AccessDenied"),
        (observing(client_error("ValidationException", "X")), FAILED, "ValidationException"),
    ],
)
def test_a_result_is_what_was_observed(one: Check, result: Result, text: str) -> None:
    checked = run_check(one, FakeTarget(), lambda _: None, poll_seconds=0)  # type: ignore[arg-type]
    assert checked.result is result
    assert text in checked.seen


def test_an_error_that_is_no_denial_is_raised() -> None:
    def call() -> None:
        raise client_error("ThrottlingException", "X")

    with pytest.raises(ClientError):
        operators.is_denied(call)
