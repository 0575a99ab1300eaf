"""Results of a check, and the checks of access: each can fail."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from proof.real_aws.check import Check, Result, Seen, run_check
from proof.real_aws.checks import deployments, permissions
from tests.proof.real_aws.fake_stacks import client_error
from tests.proof.real_aws.fake_target import Api, FakeTarget, Permitted, judged

PASSED, FAILED, NOT_OBSERVED = Result.PASSED, Result.FAILED, Result.NOT_OBSERVED
DENIED = client_error("AccessDenied", "Any")


@pytest.mark.parametrize(
    ("answers", "amount", "result"),
    [
        ((503, 401, 200, 200), 1, PASSED),
        ((503, 503, 401, 200, 200), 1, PASSED),
        ((401, 401, 200, 200), 1, FAILED),
        ((503, 200, 200, 200), 1, FAILED),
        ((503, 401, 403, 403), 1, FAILED),
        ((503, 401, 200, 200), 2, FAILED),
        ((503, 401, 200, 200), 0, FAILED),
    ],
)
def test_the_function_url_is_judged_by_its_answers(
    answers: tuple[int, ...], amount: int, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter(answers)
    monkeypatch.setattr(deployments, "post", lambda *_: next(given))
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
    monkeypatch.setattr(permissions, "_assumed", lambda *_: lambda _: api)
    answers = {"create_role": {"Role": {"Arn": "arn"}}, "list_policies": {"Policies": []}}
    assert judged("operators", FakeTarget(answers)) is result


def test_a_role_that_cannot_be_assumed_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "_assumed", lambda *_: None)
    answers = {"create_role": {"Role": {"Arn": "arn"}}, "list_policies": {"Policies": []}}
    assert judged("operators", FakeTarget(answers)) is FAILED


STREAM = {
    "create_key": {"KeyMetadata": {"Arn": "arn:key"}},
    "create_table": {"TableDescription": {"LatestStreamArn": "arn:table/probe/stream/1"}},
    "describe_table": {"Table": {"TableStatus": "ACTIVE"}},
    "create_role": {"Role": {"Arn": "arn"}},
}
ROWS: dict[str, Any] = {
    "describe_stream": {"StreamDescription": {"Shards": [{"ShardId": "1"}]}},
    "get_shard_iterator": {"ShardIterator": "i"},
    "get_records": {"Records": [{}]},
}


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        (ROWS, PASSED),
        (ROWS | {"get_records": {"Records": []}}, FAILED),
        (ROWS | {"get_records": DENIED}, FAILED),
        (ROWS | {"list_streams": DENIED}, FAILED),
    ],
)
def test_the_stream_of_a_table_with_a_key_is_judged_by_its_records(
    answers: dict[str, Any], result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    deletion = {"schedule_key_deletion": lambda KeyId, **_: ended.append(KeyId)}  # noqa: N803
    monkeypatch.setattr(permissions, "_assumed", lambda *_: lambda _: Api(answers))
    assert judged("stream-key", FakeTarget({**STREAM, **deletion})) is result
    assert ended == ["arn:key"]


MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:probe"
WORKFLOW = {
    "create_role": {"Role": {"Arn": "arn"}},
    "create_state_machine": {"stateMachineArn": MACHINE, "stateMachineVersionArn": f"{MACHINE}:1"},
    "create_state_machine_alias": {"stateMachineAliasArn": f"{MACHINE}:live"},
}


@pytest.mark.parametrize(
    ("startable", "result"),
    [((f"{MACHINE}:live",), PASSED), ((), FAILED), ((f"{MACHINE}:live", MACHINE), FAILED)],
)
def test_a_workflow_is_judged_by_which_of_its_arns_starts_it(
    startable: tuple[str, ...], result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(stateMachineArn: str, **_: str) -> Any:  # noqa: N803
        return {"executionArn": "e"} if stateMachineArn in startable else DENIED

    api = Api({"start_execution": start})
    monkeypatch.setattr(permissions, "_assumed", lambda *_: lambda _: api)
    assert judged("workflow-alias", FakeTarget(WORKFLOW)) is result


def observing(*observations: Seen | Exception) -> Check:
    def observe(_: Any) -> Iterator[Seen]:
        for each in observations:
            if isinstance(each, Exception):
                raise each
            yield each

    return Check("one", "this", 10, observe, if_not="mend it")


@pytest.mark.parametrize(
    ("one", "result", "text"),
    [
        (observing(Seen("a"), Seen("b", PASSED)), PASSED, "b"),
        (observing(Seen("a")), FAILED, "not within 10 s: a"),
        (observing(Seen("a", at_deadline=NOT_OBSERVED)), NOT_OBSERVED, "not within 10 s: a"),
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
        permissions.is_denied(call)
