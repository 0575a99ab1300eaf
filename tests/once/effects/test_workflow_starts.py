"""Workflows: started once for each event, wherever a function dies or an answer is lost."""

import re
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from msgspec import Struct

from once.effects.workflow_starts import _execution_arn, execution_name, meaning_of
from once.errors import NotDone, RegistrationError
from once.testing import Fault, answer_lost, inject, never_sent, refused
from tests.once.effects.provider import LEASE
from tests.once.effects.starter import (
    VARIABLE,
    DurableFunctions,
    Service,
    Starter,
    StepFunctions,
    starting_consumer,
)
from tests.once.support import note

HASH = "0123456789abcdef" * 4
SERVICES = pytest.mark.parametrize("service", [StepFunctions(), DurableFunctions()])


@pytest.mark.parametrize(
    ("service", "operation", "parameter"),
    [("stepfunctions", "StartExecution", "name"), ("lambda", "Invoke", "DurableExecutionName")],
)
def test_both_services_take_a_name_for_each_key_and_number(
    service: str, operation: str, parameter: str
) -> None:
    shapes: Any = botocore.session.get_session().get_service_model(service)
    limits = shapes.operation_model(operation).input_shape.members[parameter].metadata
    keys = [f"once-{key}-{'e' * 40}-{n}" for key in (HASH, HASH[::-1]) for n in (1, 99)]
    names = [execution_name(key) for key in keys]
    assert len({*names}) == len(keys)
    assert all(limits["min"] <= len(name) <= limits["max"] for name in names)
    assert all(re.fullmatch("[a-zA-Z0-9-]+", name) for name in names)
    assert names[0].startswith(f"once-{HASH[:56]}")


@pytest.mark.parametrize(("days", "seconds"), [(None, 14 * 86400), ("2", 2 * 86400)])
def test_a_start_is_repeated_only_while_lambda_keeps_the_name(
    monkeypatch: pytest.MonkeyPatch, days: str | None, seconds: int
) -> None:
    if days is not None:
        monkeypatch.setenv("ONCE_RETENTION_DAYS_FULFILMENT", days)
    [effect] = starting_consumer(DurableFunctions()).effects.values()
    assert effect.key_lifetime_seconds == seconds - 3600


@SERVICES
def test_a_deployed_function_that_does_not_know_its_workflow_does_not_load(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "notes")
    with pytest.raises(RegistrationError, match=r"'fulfilment'.* add it to starts= of"):
        starting_consumer(service)
    monkeypatch.setenv(VARIABLE, "arn")
    assert starting_consumer(service)


def test_without_an_arn_nothing_is_started(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    assert starter.deliver(note(), receive_count=5)
    [(_, text)] = starter.dead_letters()
    assert (f"{VARIABLE} is not set" in text, starter.standing) == (True, "not-done")


def express(**_: Any) -> tuple[Any, dict[str, Any]]:
    """Answer as an express state machine, whose executions have ARNs of another form."""
    arn = "arn:aws:states:us-east-1:123456789012:express:fulfil:name:5f6e"
    answer = {"executionArn": arn, "ResponseMetadata": {"HTTPStatusCode": 200}}
    return SimpleNamespace(status_code=200), answer


def test_an_express_execution_is_reported_and_not_taken_for_a_start(machine: Starter) -> None:
    events, name = machine.service.client.meta.events, "before-call.sfn.StartExecution"
    events.register_first(name, express)
    try:
        assert machine.deliver(note())
    finally:
        events.unregister(name, express)
    [(reason, text)] = machine.dead_letters()
    assert (reason, machine.standing) == ("effect-unknown", "unknown")
    assert "Use a standard state machine" in text


@pytest.mark.parametrize("qualifier", ["", ":7", ":live"])
def test_an_execution_belongs_to_its_machine_whatever_version_started_it(qualifier: str) -> None:
    account = "arn:aws:states:eu-west-1:111122223333"
    found = _execution_arn(f"{account}:stateMachine:fulfil{qualifier}", "once-1")
    assert found == f"{account}:execution:fulfil:once-1"


# A workflow is started once for each event, wherever a function dies or an answer is lost.


class Grown(Struct, frozen=True):
    """The request after a deployment that adds a field."""

    name: str
    amount: int
    priority: int = 0


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
@pytest.mark.parametrize("done", [False, True], ids=["before the start", "after the start"])
def test_a_function_that_dies_at_the_start_starts_one_execution(
    starter: Starter, *, done: bool, ended: bool
) -> None:
    event = note()
    with starter.killed_at_start(done=done):
        assert starter.killed(event)
    assert len(starter.service.started()) == done
    if ended:
        starter.service.end()
    starter.later(LEASE)
    assert starter.deliver(event)
    starter.assert_started_once()


@pytest.mark.parametrize(
    "faults",
    [[answer_lost()], [never_sent()], [answer_lost(), never_sent(), answer_lost(), answer_lost()]],
    ids=["answer lost", "never sent", "three attempts, and one later"],
)
def test_a_lost_answer_is_asked_for_again_under_the_same_name(
    starter: Starter, faults: list[Fault]
) -> None:
    event = note()
    with starter.at_start(*faults):
        assert starter.deliver(event) is (len(faults) < 3)
        starter.deliver(event)
    starter.assert_started_once()


def test_the_input_is_that_of_the_first_attempt_after_the_model_has_changed(
    starter: Starter,
) -> None:
    event = note()
    with starter.killed_at_start(done=True):
        assert starter.killed(event)
    starter.later(LEASE)
    starter.consumer = starting_consumer(starter.service, Grown)
    assert starter.deliver(event)
    starter.assert_started_once()


def taken(starter: Starter, fault: Fault) -> Any:
    """Occupy the name of an event's execution, after three attempts with a fault; return it."""
    event = note()
    with starter.at_start(fault, fault, fault):
        assert not starter.deliver(event)
    starter.service.occupy(execution_name(starter.record["provider_key"]), {"name": "x"})
    return event


def test_a_name_with_another_input_is_a_key_conflict(starter: Starter) -> None:
    event = taken(starter, refused("ThrottlingException"))
    assert starter.deliver(event)
    [(reason, text)] = starter.dead_letters()
    assert reason == "key-conflict"
    assert execution_name(starter.record["provider_key"]) in text
    assert starter.standing == "not-done"
    assert len(starter.service.started()) == 1


def test_the_input_of_an_execution_decides_after_a_lost_answer_if_the_service_shows_it(
    starter: Starter,
) -> None:
    event = taken(starter, never_sent())
    assert starter.deliver(event)
    expected = {
        StepFunctions: ("key-conflict", "not-done"),
        DurableFunctions: ("effect-unknown", "unknown"),
    }
    [(reason, _)] = starter.dead_letters()
    assert (reason, starter.standing) == expected[type(starter.service)]


def test_a_function_that_is_not_durable_is_reported(durable: Starter) -> None:
    durable.service.is_durable = False  # type: ignore[union-attr]
    assert durable.deliver(note())
    [(reason, text)] = durable.dead_letters()
    assert (reason, durable.standing) == ("effect-unknown", "unknown")
    assert "Give the function a DurableConfig" in text


REFUSALS = {
    "throttled": refused("ThrottlingException"),
    "limit": refused("ExecutionLimitExceeded"),
    "no rights": refused("AccessDeniedException"),
    "no workflow": refused("StateMachineDoesNotExist"),
    "no function": refused("ResourceNotFoundException", status=404),
    "too many": refused("TooManyRequestsException", status=429),
}
FAILURE = refused("InternalFailure", status=500)


@pytest.mark.parametrize(
    ("fault", "standing"),
    [*((fault, "not-done") for fault in REFUSALS.values()), (FAILURE, "unknown")],
    ids=[*REFUSALS, "error of the service"],
)
def test_a_fault_that_may_pass_is_retried(starter: Starter, fault: Fault, standing: str) -> None:
    event = note()
    with starter.at_start(fault, fault, fault):
        assert not starter.deliver(event)
    assert starter.standing == standing
    assert starter.service.started() == []
    assert starter.deliver(event)
    starter.assert_started_once()


@pytest.mark.parametrize("code", ["InvalidExecutionInput", "RequestTooLargeException"])
def test_an_input_that_is_never_accepted_is_dead_lettered_at_once(
    starter: Starter, code: str
) -> None:
    with starter.at_start(refused(code)):
        assert starter.deliver(note())
    [(reason, text)] = starter.dead_letters()
    assert (reason, starter.standing) == ("permanent", "not-done")
    assert text.endswith(code)


def test_an_execution_that_cannot_be_read_leaves_the_outcome_unknown(machine: Starter) -> None:
    event, missing = note(), refused("ExecutionDoesNotExist")  # the read is eventually consistent
    with machine.killed_at_start(done=True):
        assert machine.killed(event)
    machine.service.end()
    machine.later(LEASE)
    faults = (FAILURE, missing, FAILURE)
    with inject(machine.service.client, "DescribeExecution", *faults) as left:
        assert not machine.deliver(event)
    assert (left, machine.standing) == ([], "unknown")
    assert machine.deliver(event)
    machine.assert_started_once()


@pytest.mark.parametrize("error", [ConnectTimeoutError, EndpointConnectionError])
def test_without_a_connection_nothing_is_started(error: type[Exception]) -> None:
    raised = error(endpoint_url="https://states")  # type: ignore[call-arg]
    assert isinstance(meaning_of(raised, "arn"), NotDone)
    unanswered = ReadTimeoutError(endpoint_url="https://states")
    assert meaning_of(unanswered, "arn") is unanswered
