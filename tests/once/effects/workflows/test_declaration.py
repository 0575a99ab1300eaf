"""Declarations of workflows: names of executions, missing ARNs, and workflows without names."""

import re
from types import SimpleNamespace
from typing import Any

import botocore.session
import pytest

from once.cdk.checks.consumer_props import START_SECONDS
from once.effects.workflows import ONE_ATTEMPT, _execution_arn, execution_name
from once.errors import RegistrationError
from tests.once.effects.workflows.starter import (
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
@pytest.mark.parametrize("number", [1, 99])
def test_both_services_take_the_name(
    service: str, operation: str, parameter: str, number: int
) -> None:
    name = execution_name(f"once-{HASH}-{'e' * 40}-{number}")
    shapes: Any = botocore.session.get_session().get_service_model(service)
    limits = shapes.operation_model(operation).input_shape.members[parameter].metadata
    assert limits["min"] <= len(name) <= limits["max"]
    assert re.fullmatch("[a-zA-Z0-9-]+", name)
    assert name.startswith(f"once-{HASH[:56]}")


def test_names_of_two_keys_and_of_two_numbers_differ() -> None:
    other = HASH[::-1]
    keys = (f"once-{HASH}-e-1", f"once-{HASH}-e-2", f"once-{other}-e-1")
    assert len({*map(execution_name, keys)}) == 3


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


def test_a_function_that_is_not_durable_is_reported(durable: Starter) -> None:
    durable.service.is_durable = False  # type: ignore[attr-defined]
    assert durable.deliver(note())
    [(reason, text)] = durable.dead_letters()
    assert (reason, durable.standing) == ("effect-unknown", "unknown")
    assert "Give the function a DurableConfig" in text


def test_two_requests_end_within_the_least_timeout_of_an_effect() -> None:
    longest = ONE_ATTEMPT.connect_timeout + ONE_ATTEMPT.read_timeout  # type: ignore[attr-defined]
    assert 2 * longest <= START_SECONDS
    assert ONE_ATTEMPT.retries["total_max_attempts"] == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("qualifier", ["", ":7", ":live"])
def test_an_execution_belongs_to_its_machine_whatever_version_started_it(qualifier: str) -> None:
    account = "arn:aws:states:eu-west-1:111122223333"
    found = _execution_arn(f"{account}:stateMachine:fulfil{qualifier}", "once-1")
    assert found == f"{account}:execution:fulfil:once-1"
