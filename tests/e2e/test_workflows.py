"""A deployed consumer starts a state machine, with the rights of its role alone."""

import json
from typing import Any

import pytest

from once.effects.workflows import execution_name
from once.events.identity import key_hash
from once.testing import cloud_event
from tests.e2e.deployment import Deployment

DEFINITION = {"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}
TRUST = {
    "Version": "2012-10-17",
    "Statement": {
        "Effect": "Allow",
        "Principal": {"Service": "states.amazonaws.com"},
        "Action": "sts:AssumeRole",
    },
}


@pytest.fixture(scope="module")
def machine(service: Deployment) -> str:
    """Make the state machine that the consumer starts; return its ARN."""
    iam: Any = service.aws.client("iam")
    role = iam.create_role(RoleName="launch", AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]
    made = states(service).create_state_machine(
        name="launch", definition=json.dumps(DEFINITION), roleArn=role["Arn"]
    )
    return str(made["stateMachineArn"])


def states(service: Deployment) -> Any:
    return service.aws.client("stepfunctions")


def executions(service: Deployment, machine: str) -> set[str]:
    found = states(service).list_executions(stateMachineArn=machine)["executions"]
    return {execution["executionArn"] for execution in found}


def launch(service: Deployment, counter: str) -> str:
    """Send an event in two messages; return the execution that its consumer has stored."""
    event = cloud_event("launch.asked", {"counter": counter}, event_id=counter)
    service.send("launch", event, event)
    service.wait_until_empty("launch")
    assert service.take("launch") == []
    return str(service.get("counters", id=counter)["execution"])


def test_two_messages_of_an_event_start_one_execution(service: Deployment, machine: str) -> None:
    before = executions(service, machine)
    started = launch(service, "started")
    assert executions(service, machine) - before == {started}


def test_an_execution_of_an_earlier_attempt_is_found(service: Deployment, machine: str) -> None:
    name = execution_name(f"once-{key_hash('launch#event#/test#found')}-count-1")
    earlier = states(service).start_execution(
        stateMachineArn=machine, name=name, input='{"counter":"found"}'
    )["executionArn"]
    before = executions(service, machine)
    assert launch(service, "found") == earlier
    assert executions(service, machine) == before
