"""Each check can fail: its verdict with sound answers of AWS, and with each wrong one."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from proof.real_aws.checks import CHECKS, audit, function_url, operators, queues, rollout, tables
from proof.real_aws.checks.check import Check, Result, Seen, passed, run_check, waiting
from tests.proof.real_aws.fake_stacks import client_error

PASSED, FAILED, NOT_OBSERVED = Result.PASSED, Result.FAILED, Result.NOT_OBSERVED
QUEUE = "once-verify-0-counter"
ALARM = {
    "AlarmName": "letters",
    "AlarmDescription": "counter: dead letters wait for a decision.",
    "Dimensions": [{"Name": "QueueName", "Value": f"{QUEUE}-dead-letters"}],
}


class Api:
    """Clients whose answers are given by operation; a list is answered one by one."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = {name: answer for name, answer in answers.items()}
        self.meta = SimpleNamespace(region_name="eu-west-1")

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **_: [getattr(self, operation)()])

    def __getattr__(self, operation: str) -> Any:
        def call(**_: Any) -> Any:
            answer = self._answers.get(operation, {})
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@dataclass
class FakeTarget:
    """The service as a check sees it, with given amounts and answers."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    amount_of: Callable[[str], int] = lambda name: 1
    items: Callable[[str], dict[str, Any]] = lambda name: {}
    letters: tuple[str, ...] = ()
    local: bool = False
    account: str = "123456789012"
    started: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    sent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.api = Api(self.answers)
        consumer = SimpleNamespace(
            queue_url=f"https://sqs/{QUEUE}",
            dead_letter_url=f"https://sqs/{QUEUE}-dead-letters",
            function_name=QUEUE,
        )
        self.parts = SimpleNamespace(
            service="once-verify-0",
            dedup_table="dedup",
            consumer=lambda _: consumer,
            table=lambda name: name,
            webhooks=SimpleNamespace(url="https://hook/", secrets={"verify": "arn"}),
        )

    def client(self, _: str) -> Any:
        return self.api

    def id(self, name: str) -> str:
        return f"run-{name}"

    def asked(self, name: str, **data: Any) -> str:
        return json.dumps({"id": self.id(name), **data})

    def publish(self, bodies: list[str], _: str = "") -> None:
        self.sent += bodies

    def item(self, table: str, name: str) -> dict[str, Any]:
        return self.items(name)

    def amount(self, name: str, table: str = "counters") -> int:
        return self.amount_of(name)

    def amounts(self, names: list[str], table: str = "counters") -> dict[str, int]:
        return {name: self.amount_of(name) for name in names}

    def messages_left(self, *_: str) -> int:
        return 0

    def arn(self, url: str) -> str:
        return f"arn:{url}"

    def mapping(self, _: str) -> Any:
        return self.api.mapping()

    def redeploy(self) -> None:
        time.sleep(0.02)

    def evidence(self) -> Any:
        def messages(url: str) -> list[Any]:
            reasons = self.letters if url == "q" else ()
            return [{"MessageAttributes": {"once-reason": {"StringValue": r}}} for r in reasons]

        record = {"pk": {"S": "counter#event#run-expiring"}, "dedup_key": {"S": ""}}
        return SimpleNamespace(
            dead_letters={"counter": "q", "follower": "other"},
            messages=messages,
            items=lambda _: [record],
        )


def check(name: str) -> Check:
    return next(each for each in CHECKS if each.name == name)


def amounts(**wrong: int) -> Callable[[str], int]:
    """Return 1 for every counter but these."""
    return lambda name: wrong.get(name.replace("-", "_"), 1)


def counts(*values: int) -> Callable[[str], int]:
    """Return these amounts one after the other, and then the last one."""
    left = [*values]
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def log(**metrics: Any) -> dict[str, Any]:
    return {"events": [{"message": "START"}, {"message": json.dumps(metrics)}]}


def direct(**answers: str) -> Callable[[str], dict[str, Any]]:
    denied = dict.fromkeys(tables.REFUSED, "AccessDeniedException") | answers
    item = {"answers": {"S": json.dumps(denied)}}
    return lambda name: item if name == "direct" else {}


def holds(*times: tuple[int, int]) -> Callable[[str], dict[str, Any]]:
    def item(name: str) -> dict[str, Any]:
        begin, end = times[int(name.removeprefix("hold-")) % len(times)]
        return {"began_ms": {"N": str(begin)}, "ended_ms": {"N": str(end)}}

    return item


def task(status: str, moved: int = 1) -> dict[str, Any]:
    return {"Results": [{"Status": status, "ApproximateNumberOfMessagesMoved": moved}]}


DENIED = client_error("AccessDenied", "Any")
REFUSED = client_error("InvalidParameterValue", "SetQueueAttributes")
UNKNOWN = client_error("InvalidAction", "StartMessageMoveTask")
POINTS, NO_POINTS = {"Datapoints": [{"Sum": 3.0}]}, {"Datapoints": []}
REASONS = ("key-conflict",) * 3 + ("unparseable",) * 3
TWO, THREE = ((0, 500), (10, 510), (1000, 1500)), ((0, 500), (10, 510), (20, 520))
TTL = {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
STRANGER = {"create_queue": {"QueueUrl": "u"}, "set_queue_attributes": REFUSED}
MOVED = {"list_message_move_tasks": task("COMPLETED"), **STRANGER}
MAPPING = {"mapping": {"UUID": "m", "ScalingConfig": {"MaximumConcurrency": 2}}}
DEPLOYED = {
    "get_alias": [{"FunctionVersion": "1"}, {"FunctionVersion": "2"}],
    "list_applications": {"applications": ["once-verify-0-service-follower", "other"]},
    "list_deployment_groups": {"deploymentGroups": ["g"]},
    "list_deployments": {"deployments": ["d"]},
}


def deployed(status: str = "Succeeded", config: str = "LambdaCanary10Percent5Minutes") -> Any:
    info = {"status": status, "deploymentConfigName": f"CodeDeployDefault.{config}"}
    return {**DEPLOYED, "get_deployment": {"deploymentInfo": info}}


def alarm(*states: str) -> dict[str, Any]:
    first = {"MetricAlarms": [ALARM]}
    return {"describe_alarms": [first, *({"MetricAlarms": [{"StateValue": s}]} for s in states)]}


CASES: list[tuple[str, FakeTarget, Result]] = [
    ("audit", FakeTarget(letters=REASONS), PASSED),
    ("audit", FakeTarget(letters=REASONS, amount_of=amounts(audit_7=0)), FAILED),
    ("audit", FakeTarget(letters=REASONS, amount_of=amounts(audit_7=2)), FAILED),
    ("audit", FakeTarget(letters=(*REASONS, "unparseable")), FAILED),
    ("audit", FakeTarget(letters=REASONS[1:]), FAILED),
    (
        "transaction-conflicts",
        FakeTarget({"filter_log_events": log(Conflicts=[2])}, amount_of=lambda _: 300),
        PASSED,
    ),
    (
        "transaction-conflicts",
        FakeTarget({"filter_log_events": log(Conflicts=[2])}, amount_of=lambda _: 301),
        FAILED,
    ),
    (
        "transaction-conflicts",
        FakeTarget({"filter_log_events": log(Conflicts=[2])}, amount_of=lambda _: 299),
        FAILED,
    ),
    (
        "transaction-conflicts",
        FakeTarget({"filter_log_events": log(Committed=[2])}, amount_of=lambda _: 300),
        NOT_OBSERVED,
    ),
    ("ttl", FakeTarget({"describe_time_to_live": {"TimeToLiveDescription": TTL}}), PASSED),
    (
        "ttl",
        FakeTarget(
            {"describe_time_to_live": {"TimeToLiveDescription": TTL | {"AttributeName": "x"}}}
        ),
        FAILED,
    ),
    ("expiry", FakeTarget({"get_item": {"Item": {}}}, amount_of=counts(1, 2)), PASSED),
    ("expiry", FakeTarget({"get_item": {"Item": {}}}, amount_of=lambda _: 1), FAILED),
    ("expiry", FakeTarget({"get_item": {"Item": {}}}, amount_of=counts(1, 2, 3)), FAILED),
    ("expiry", FakeTarget({"get_item": {}}, amount_of=counts(1, 2)), NOT_OBSERVED),
    ("enclosing-operation", FakeTarget(items=direct()), PASSED),
    ("enclosing-operation", FakeTarget(items=direct(PutItem="allowed")), FAILED),
    ("enclosing-operation", FakeTarget(items=lambda _: direct()("direct")), FAILED),
    ("enclosing-operation", FakeTarget(), FAILED),
    ("maximum-concurrency", FakeTarget(MAPPING, items=holds(*TWO)), PASSED),
    ("maximum-concurrency", FakeTarget(MAPPING, items=holds(*THREE)), FAILED),
    ("maximum-concurrency", FakeTarget(MAPPING, items=holds((0, 500), (500, 900))), FAILED),
    ("maximum-concurrency", FakeTarget({"mapping": {}}, items=holds(*TWO)), FAILED),
    ("redrive-task", FakeTarget(MOVED), PASSED),
    ("redrive-task", FakeTarget(MOVED | {"set_queue_attributes": {}}), FAILED),
    ("redrive-task", FakeTarget(MOVED | {"list_message_move_tasks": task("FAILED")}), FAILED),
    ("redrive-task", FakeTarget(MOVED | {"list_message_move_tasks": task("RUNNING")}), FAILED),
    ("redrive-task", FakeTarget(MOVED, amount_of=counts(1, 2)), FAILED),
    ("redrive-task", FakeTarget(MOVED | {"start_message_move_task": UNKNOWN}), NOT_OBSERVED),
    ("mapping-metrics", FakeTarget(MAPPING | {"get_metric_statistics": POINTS}), PASSED),
    (
        "mapping-metrics",
        FakeTarget(MAPPING | {"get_metric_statistics": [*[NO_POINTS] * 3, POINTS, NO_POINTS]}),
        FAILED,
    ),
    ("mapping-metrics", FakeTarget(MAPPING | {"get_metric_statistics": NO_POINTS}), NOT_OBSERVED),
    ("traces", FakeTarget({"get_trace_summaries": {"TraceSummaries": [{"Id": "1"}]}}), PASSED),
    (
        "traces",
        FakeTarget(
            {"get_trace_summaries": {"TraceSummaries": []}, "get_metric_statistics": POINTS}
        ),
        FAILED,
    ),
    ("traces", FakeTarget({"get_trace_summaries": client_error("400", "X")}), NOT_OBSERVED),
    (
        "alarm",
        FakeTarget(alarm("OK", "ALARM", "ALARM", "OK") | {"get_metric_statistics": POINTS}),
        PASSED,
    ),
    ("alarm", FakeTarget(alarm("OK") | {"get_metric_statistics": POINTS}), FAILED),
    ("alarm", FakeTarget(alarm("ALARM") | {"get_metric_statistics": POINTS}), FAILED),
    ("alarm", FakeTarget(alarm("OK") | {"get_metric_statistics": NO_POINTS}), NOT_OBSERVED),
    ("alarm", FakeTarget({"describe_alarms": {"MetricAlarms": []}}), FAILED),
    ("rollout", FakeTarget(deployed()), PASSED),
    ("rollout", FakeTarget(deployed("Failed")), FAILED),
    ("rollout", FakeTarget(deployed(config="LambdaAllAtOnce")), FAILED),
    ("rollout", FakeTarget(deployed() | {"get_alias": {"FunctionVersion": "1"}}), FAILED),
    ("rollout", FakeTarget(deployed(), amount_of=lambda _: 2), FAILED),
    ("rollout", FakeTarget(deployed(), local=True), NOT_OBSERVED),
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(audit, "undelivered_events", lambda _: 0)
    monkeypatch.setattr(audit, "total_depth", lambda *_: SimpleNamespace(total=len(REASONS)))


def judged(name: str, target: FakeTarget) -> Result:
    one, found = check(name), target
    return run_check(one, found, lambda _: None, patience=0.05 / one.seconds, poll_seconds=0).result  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "target", "result"), CASES)
def test_a_check_judges_the_answers_of_aws(name: str, target: FakeTarget, result: Result) -> None:
    assert judged(name, target) is result


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


class Permitted(Api):
    """An operator's clients, to whom only these operations are permitted."""

    def __init__(self, *operations: str) -> None:
        super().__init__({})
        self._permitted = operations

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            reads = arguments.get("TableName") if operation == "get_item" else None
            if f"{operation} {reads}" not in self._permitted and operation not in self._permitted:
                raise DENIED
            return {}

        return call


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


def test_every_check_has_a_case_in_which_it_fails() -> None:
    failing = {name for name, _, result in CASES if result is FAILED}
    assert failing | {"function-url", "operators"} == {each.name for each in CHECKS}


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


@pytest.mark.parametrize(
    ("times", "most"),
    [((), 0), (TWO, 2), (THREE, 3), (((0, 500), (450, 900)), 1), (((0, 500), (200, 700)), 2)],
)
def test_invocations_at_once_are_counted_with_a_margin_for_clocks(
    times: tuple[tuple[int, int], ...], most: int
) -> None:
    assert queues.most_at_once(times) == most


def test_an_error_that_is_no_denial_is_raised() -> None:
    def call() -> None:
        raise client_error("ThrottlingException", "X")

    with pytest.raises(ClientError):
        operators.is_denied(call)
