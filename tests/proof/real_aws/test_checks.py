"""Each check can fail: its verdict with sound answers of AWS, and with each wrong one."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from proof.real_aws.check import Check, Result, Seen, run_check
from proof.real_aws.checks import CHECKS, deployments, permissions, queues, tables
from tests.proof.real_aws.fakes import QUEUE, Api, FakeTarget, Permitted, client_error, judged

PASSED, FAILED, NOT_OBSERVED = Result.PASSED, Result.FAILED, Result.NOT_OBSERVED
ALARM = {
    "AlarmName": "letters",
    "AlarmDescription": "today: counter: dead letters have arrived.",
    "Dimensions": [{"Name": "QueueName", "Value": f"{QUEUE}-dead-letters"}],
}


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
    every = (*tables.REFUSED, tables.FOREIGN)
    denied = dict.fromkeys(every, "AccessDeniedException") | answers
    item = {"answers": {"S": json.dumps(denied)}}
    return lambda name: item if name == "direct" else {}


def task(status: str, moved: int = 1) -> dict[str, Any]:
    return {"Results": [{"Status": status, "ApproximateNumberOfMessagesMoved": moved}]}


DENIED = client_error("AccessDenied", "Any")
REFUSED = client_error("InvalidParameterValue", "SetQueueAttributes")
UNKNOWN = client_error("InvalidAction", "StartMessageMoveTask")


def points(*values: float) -> dict[str, Any]:
    """Return figures of the last minutes, the newest one in half an hour."""
    start = datetime.now(UTC) + timedelta(minutes=30 - len(values))
    return {
        "Datapoints": [
            {"Timestamp": start + timedelta(minutes=n), "Sum": value, "Maximum": value}
            for n, value in enumerate(values)
        ]
    }


POINTS, NO_POINTS = points(0.0, 3.0), points()


def only_invocations(MetricName: str, **_: Any) -> Any:  # noqa: N803
    return POINTS if MetricName == "Invocations" else NO_POINTS


REASONS = ("key-conflict",) * 3 + ("unparseable",) * 3
CONTROL = {"Attributes": {"RedrivePolicy": "arn:stranger-dead-letters"}}
STRANGER = {
    "create_queue": {"QueueUrl": "u"},
    "set_queue_attributes": [{}, REFUSED],
    "get_queue_attributes": CONTROL,
}
MOVED = {"list_message_move_tasks": task("COMPLETED"), **STRANGER}
MAPPING = {"relay_mapping": {"UUID": "m"}}
DEPLOYED = {
    "get_alias": [{"FunctionVersion": "1"}, {"FunctionVersion": "2"}],
    "list_deployments": {"deployments": ["d"]},
}


def deployed(
    status: str = "Succeeded",
    config: str = "LambdaCanary10Percent5Minutes",
    application: str = "once-verify-0-service-follower",
) -> Any:
    info = {"status": status, "deploymentConfigName": f"CodeDeployDefault.{config}"}
    info |= {"applicationName": application}
    return {**DEPLOYED, "get_deployment": {"deploymentInfo": info}}


def alarm(*states: str) -> dict[str, Any]:
    first = {"MetricAlarms": [ALARM]}
    return {"describe_alarms": [first, *({"MetricAlarms": [{"StateValue": s}]} for s in states)]}


FIFO = {"create_queue": {"QueueUrl": "u"}, "create_topic": {"TopicArn": "t"}}


def depth(number: int) -> dict[str, Any]:
    every = ("", "NotVisible", "Delayed")
    names = [f"ApproximateNumberOfMessages{each}" for each in every]
    return {"get_queue_attributes": {"Attributes": dict.fromkeys(names, str(number))}}


def tallied(answer: str) -> Callable[[str], dict[str, Any]]:
    return lambda _: {"answer": {"S": answer}}


ROLE = {"create_role": {"Role": {"Arn": "arn"}}, "list_policies": {"Policies": []}}
READS = ("describe_stacks", "get_queue_attributes", "get_item dedup")


def operators(*permitted: str) -> FakeTarget:
    return FakeTarget(ROLE, assumed=Permitted(*permitted))


ENDED: list[str] = []
"""The keys whose deletion was scheduled."""
STREAM = ROLE | {
    "create_key": {"KeyMetadata": {"Arn": "arn:key"}},
    "create_table": {"TableDescription": {"LatestStreamArn": "arn:table/probe/stream/1"}},
    "describe_table": {"Table": {"TableStatus": "ACTIVE"}},
    "schedule_key_deletion": lambda KeyId, **_: ENDED.append(KeyId),  # noqa: N803
    "create_function": [REFUSED, {}],
    "create_event_source_mapping": [REFUSED, {"UUID": "m"}],
    "delete_event_source_mapping": lambda UUID: ENDED.append(UUID),  # noqa: N803
    "delete_function": lambda FunctionName: ENDED.append(FunctionName),  # noqa: N803
}


def processed(*results: str) -> dict[str, Any]:
    return {"get_event_source_mapping": [{"LastProcessingResult": each} for each in results]}


READ = processed("No records processed", "OK")


def stream(by_lambda: dict[str, Any] = READ, **answers: Any) -> FakeTarget:
    sound: dict[str, Any] = {
        "describe_stream": {"StreamDescription": {"Shards": [{"ShardId": "1"}]}},
        "get_shard_iterator": {"ShardIterator": "i"},
        "get_records": {"Records": [{}]},
    }
    return FakeTarget(STREAM | by_lambda, assumed=Api(sound | answers))


def item_reader(*denied: str) -> FakeTarget:
    """Return a target with a reader to whom these reads of items are denied, the others not."""

    def read(RequestItems: Any) -> Any:  # noqa: N803
        [wanted] = RequestItems.values()
        names = {*wanted.get("ExpressionAttributeNames", {"": "all"}).values()}
        return {} if names.isdisjoint(denied) else DENIED

    return FakeTarget(ROLE, assumed=Api({"batch_get_item": read}))


def filled(once: list[int], never: list[int]) -> FakeTarget:
    found = [{"Id": "once", "Values": once}, {"Id": "never", "Values": never}]
    return FakeTarget({"get_metric_data": {"MetricDataResults": found}})


def aged(*found: dict[str, Any]) -> FakeTarget:
    return FakeTarget({"create_queue": {"QueueUrl": "u"}, "get_metric_statistics": [*found]})


def rolled_back(*statuses: str, amount: int = 1) -> FakeTarget:
    found = [{"Stacks": [{"StackStatus": each}]} for each in statuses]
    return FakeTarget({"describe_stacks": found}, amount_of=lambda _: amount)


MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:probe"
LIVE = f"{MACHINE}:live"


def workflow(*startable: str) -> FakeTarget:
    def start(stateMachineArn: str, **_: str) -> Any:  # noqa: N803
        return {"executionArn": "e"} if stateMachineArn in startable else DENIED

    made = {"stateMachineArn": MACHINE, "stateMachineVersionArn": f"{MACHINE}:1"}
    alias = {"create_state_machine_alias": {"stateMachineAliasArn": LIVE}}
    return FakeTarget(
        ROLE | {"create_state_machine": made} | alias, assumed=Api({"start_execution": start})
    )


def posting(*answers: int, amount: int = 1) -> FakeTarget:
    return FakeTarget(amount_of=lambda _: amount, posts=answers)


CASES: list[tuple[str, FakeTarget, Result]] = [
    ("function-url", posting(503, 401, 200, 200), PASSED),
    ("function-url", posting(503, 503, 401, 200, 200), PASSED),
    ("function-url", posting(401, 401, 200, 200), FAILED),
    ("function-url", posting(503, 200, 200, 200), FAILED),
    ("function-url", posting(503, 401, 403, 403), FAILED),
    ("function-url", posting(503, 401, 200, 200, amount=2), FAILED),
    ("function-url", posting(503, 401, 200, 200, amount=0), FAILED),
    ("operators", operators(*READS), PASSED),
    ("operators", operators(*READS[1:]), FAILED),
    ("operators", operators(*READS, "send_message"), FAILED),
    ("operators", operators(*READS, "delete_item"), FAILED),
    ("operators", operators(*READS, "get_item counters"), FAILED),
    ("operators", FakeTarget(ROLE), FAILED),
    ("stream-key", stream(), PASSED),
    ("stream-key", stream(get_records={"Records": []}), FAILED),
    ("stream-key", stream(get_records=DENIED), FAILED),
    ("stream-key", stream(list_streams=DENIED), FAILED),
    ("stream-key", stream(processed("PROBLEM: KMS access denied")), FAILED),
    ("stream-key", stream(READ | {"create_event_source_mapping": REFUSED}), FAILED),
    ("item-records", item_reader("answer", "all"), PASSED),
    ("item-records", item_reader("answer"), FAILED),
    ("item-records", item_reader("id", "answer", "all"), FAILED),
    ("fill", filled([0, 0, 7], [0, 0, 0]), PASSED),
    ("fill", filled([0, 0, 7], []), FAILED),
    ("fill", filled([7, 0], [0, 0]), FAILED),
    ("fill", filled([], []), NOT_OBSERVED),
    ("fifo-age", aged(points(60), points(0)), PASSED),
    ("fifo-age", aged(points(60), points(120)), FAILED),
    ("fifo-age", aged(NO_POINTS), NOT_OBSERVED),
    ("rollback", rolled_back("UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE"), PASSED),
    ("rollback", rolled_back("UPDATE_ROLLBACK_FAILED"), FAILED),
    ("rollback", rolled_back("UPDATE_COMPLETE"), FAILED),
    ("rollback", rolled_back("UPDATE_ROLLBACK_COMPLETE", amount=0), FAILED),
    ("workflow-alias", workflow(LIVE), PASSED),
    ("workflow-alias", workflow(), FAILED),
    ("workflow-alias", workflow(LIVE, MACHINE), FAILED),
    ("leading-keys", FakeTarget(items=direct()), PASSED),
    ("leading-keys", FakeTarget(), FAILED),
    ("leading-keys", FakeTarget(items=direct(**{tables.FOREIGN: "allowed"})), FAILED),
    (
        "leading-keys",
        FakeTarget(items=direct(**{tables.FOREIGN: "allowed"}), local=True),
        NOT_OBSERVED,
    ),
    ("fifo-letters", FakeTarget(FIFO | depth(1)), PASSED),
    ("fifo-letters", FakeTarget(FIFO | depth(0)), FAILED),
    ("fifo-letters", FakeTarget(FIFO | {"subscribe": REFUSED}), FAILED),
    ("subscriptions", FakeTarget(), PASSED),
    ("subscriptions", FakeTarget(amount_of=lambda _: 0), FAILED),
    ("item-attributes", FakeTarget(items=tallied("AccessDeniedException")), PASSED),
    ("item-attributes", FakeTarget(items=tallied("allowed")), FAILED),
    ("item-attributes", FakeTarget(), FAILED),
    ("audit", FakeTarget(dead_letters=REASONS), PASSED),
    ("audit", FakeTarget(dead_letters=REASONS, amount_of=amounts(audit_7=0)), FAILED),
    ("audit", FakeTarget(dead_letters=REASONS, amount_of=amounts(audit_7=2)), FAILED),
    ("audit", FakeTarget(dead_letters=(*REASONS, "unparseable")), FAILED),
    ("audit", FakeTarget(dead_letters=REASONS[1:]), FAILED),
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
    ("enclosing-operation", FakeTarget(items=direct()), PASSED),
    ("enclosing-operation", FakeTarget(items=direct(PutItem="allowed")), FAILED),
    ("enclosing-operation", FakeTarget(items=lambda _: direct()("direct")), FAILED),
    ("enclosing-operation", FakeTarget(), FAILED),
    ("redrive-task", FakeTarget(MOVED), PASSED),
    ("redrive-task", FakeTarget(MOVED | {"set_queue_attributes": {}}), FAILED),
    ("redrive-task", FakeTarget(MOVED | {"get_queue_attributes": {}}), FAILED),
    ("redrive-task", FakeTarget(MOVED | {"list_message_move_tasks": task("FAILED")}), FAILED),
    ("redrive-task", FakeTarget(MOVED | {"list_message_move_tasks": task("RUNNING")}), FAILED),
    ("redrive-task", FakeTarget(MOVED, amount_of=counts(1, 2)), FAILED),
    ("redrive-task", FakeTarget(MOVED | {"start_message_move_task": UNKNOWN}), NOT_OBSERVED),
    ("mapping-metrics", FakeTarget(MAPPING | {"get_metric_statistics": POINTS}), PASSED),
    (
        "mapping-metrics",
        FakeTarget(MAPPING | {"get_metric_statistics": only_invocations}),
        FAILED,
    ),
    ("mapping-metrics", FakeTarget(MAPPING | {"get_metric_statistics": NO_POINTS}), NOT_OBSERVED),
    (
        "alarm",
        FakeTarget(alarm("OK", "OK", "ALARM") | {"get_metric_statistics": POINTS}),
        PASSED,
    ),
    ("alarm", FakeTarget(alarm("OK") | {"get_metric_statistics": POINTS}), FAILED),
    ("alarm", FakeTarget(alarm("OK") | {"get_metric_statistics": NO_POINTS}), NOT_OBSERVED),
    ("alarm", FakeTarget({"describe_alarms": {"MetricAlarms": []}}), FAILED),
    ("rollout", FakeTarget(deployed()), PASSED),
    ("rollout", FakeTarget(deployed("Failed")), FAILED),
    ("rollout", FakeTarget(deployed(config="LambdaAllAtOnce")), FAILED),
    ("rollout", FakeTarget(deployed(application="other")), FAILED),
    ("rollout", FakeTarget(deployed() | {"get_alias": {"FunctionVersion": "1"}}), FAILED),
    ("rollout", FakeTarget(deployed(), amount_of=lambda _: 2), FAILED),
    ("rollout", FakeTarget(deployed(), local=True), NOT_OBSERVED),
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(queues, "undelivered_events", lambda _: 0)
    monkeypatch.setattr(queues, "_dead_letters", lambda _: len(REASONS))


@pytest.mark.parametrize(("name", "target", "result"), CASES)
def test_a_check_judges_the_answers_of_aws(name: str, target: FakeTarget, result: Result) -> None:
    assert judged(name, target, 10 if result is PASSED else 0.05) is result


def test_every_check_has_a_case_in_which_it_fails() -> None:
    assert {name for name, _, result in CASES if result is FAILED} == {c.name for c in CHECKS}


def test_a_key_of_a_check_is_deleted() -> None:
    ENDED.clear()
    assert judged("stream-key", stream(get_records=DENIED)) is FAILED
    assert ENDED == ["arn:key"]
    ENDED.clear()
    assert judged("stream-key", stream(processed("PROBLEM")), 10) is FAILED
    assert ENDED == ["m", "once-verify-0-stream-reader", "arn:key"]


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
