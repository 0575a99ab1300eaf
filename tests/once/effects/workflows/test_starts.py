"""A workflow is started once for each event, wherever a function dies or an answer is lost."""

from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from msgspec import Struct

from once.effects.workflows import execution_name, meaning_of
from once.errors import NotDone
from once.testing import Fault, answer_lost, inject, never_sent, refused
from tests.once.effects.provider import LEASE
from tests.once.effects.workflows.starter import Starter, starting_consumer
from tests.once.support import note


class Grown(Struct, frozen=True):
    """The request after a deployment that adds a field."""

    name: str
    amount: int
    priority: int = 0


def test_a_redelivery_starts_no_second_execution(starter: Starter) -> None:
    event = note()
    assert starter.deliver(event)
    assert starter.deliver(event)
    starter.assert_started_once()


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


def test_the_input_of_an_execution_decides_after_a_lost_answer(machine: Starter) -> None:
    event = taken(machine, never_sent())
    assert machine.deliver(event)
    assert [reason for reason, _ in machine.dead_letters()] == ["key-conflict"]
    assert machine.standing == "not-done"


def test_a_payload_that_lambda_does_not_show_leaves_the_outcome_unknown(durable: Starter) -> None:
    event = taken(durable, never_sent())
    assert durable.deliver(event)
    assert [reason for reason, _ in durable.dead_letters()] == ["effect-unknown"]
    assert durable.standing == "unknown"


REFUSALS = {
    "throttled": refused("ThrottlingException"),
    "limit": refused("ExecutionLimitExceeded"),
    "no rights": refused("AccessDeniedException"),
    "no workflow": refused("StateMachineDoesNotExist"),
    "no function": refused("ResourceNotFoundException", status=404),
    "too many": refused("TooManyRequestsException", status=429),
}


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_that_may_pass_is_retried(starter: Starter, fault: Fault) -> None:
    event = note()
    with starter.at_start(fault, fault, fault):
        assert not starter.deliver(event)
    assert starter.standing == "not-done"
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


FAILURE = refused("InternalFailure", status=500)


def test_an_error_of_the_service_leaves_the_outcome_unknown(starter: Starter) -> None:
    event = note()
    with starter.at_start(FAILURE, FAILURE, FAILURE):
        assert not starter.deliver(event)
    assert starter.standing == "unknown"
    assert starter.deliver(event)
    starter.assert_started_once()


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
