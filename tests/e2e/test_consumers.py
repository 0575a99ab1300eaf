"""Consumers of other kinds: with large data, dedup on the item, or a workflow that they start."""

import json
from typing import Any

import pytest

from demo.quiescence import wait_until
from once.effects.workflows import execution_name
from once.events.claim_check import Reference
from once.events.identity import key_hash
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, Deployment, attribute
from tests.e2e.test_orders import trace

LETTERS = 300_000


def scan(service: Deployment, name: str) -> dict[str, Any]:
    return service.get("scans", scan=name)


def asked(name: str) -> Any:
    return cloud_event("scan.asked", {"scan": name, "letters": LETTERS}, id=f"asked {name}")


def wait_until_archived(service: Deployment, name: str) -> None:
    wait_until("it is archived", lambda: "archived" in scan(service, name), timeout=REST_SECONDS)
    service.wait_until_empty("scanner", "archive")


def test_large_data_of_a_consumer_is_applied_once(service: Deployment) -> None:
    service.send("scanner", asked("published"), asked("published"))
    wait_until_archived(service, "published")
    service.send("scanner", asked("published"))
    service.wait_until_empty("scanner", "archive")
    found = scan(service, "published")
    assert (found["letters"], found["asked"], found["archived"]) == (str(LETTERS), "1", "1")


def test_a_pointer_of_a_producer_is_read_from_the_declared_bucket_only(
    service: Deployment,
) -> None:
    bucket = service.parts.claim_bucket
    assert bucket is not None
    event = cloud_event("scan.sent", {"scan": "sent", "text": "x" * LETTERS})
    service.aws.client("s3").put_object(
        Bucket=bucket, Key="producers/sent", Body=json.dumps(event).encode()
    )
    pointer = Reference(bucket, "producers/sent").pointer
    service.send("archive", pointer, pointer, Reference("elsewhere", "producers/sent").pointer)
    [dead_letter] = service.dead_letters("archive", 1)
    assert attribute(dead_letter, "once-reason") == "invalid-claim"
    wait_until_archived(service, "sent")
    found = scan(service, "sent")
    assert (found["letters"], found["archived"]) == (str(LETTERS), "1")


CONSUMERS = {"balances": "account.credited", "holders": "account.renamed"}


def test_each_consumer_changes_an_account_once(service: Deployment) -> None:
    events = [
        cloud_event(kind, {"account": f"account-{n}"})
        for kind in CONSUMERS.values()
        for n in range(5)
    ]
    service.publish(*events, *events)
    service.wait_until_swept()
    service.wait_until_empty(*CONSUMERS)
    for number in range(5):
        found = service.get("accounts", account=f"account-{number}")
        assert (found["credited"], found["renamed"]) == ("1", "1")
    for consumer, kind in CONSUMERS.items():
        service.send(consumer, cloud_event(kind, {"account": "account-0", "amount": 2}))
        [dead_letter] = service.dead_letters(consumer, 1)
        assert attribute(dead_letter, "once-reason") == "key-conflict"
    moments = trace(service, "account-0", "--no-logs")["moments"]
    assert {(m["consumer"], m["what"]) for m in moments} == {
        (consumer, "committed") for consumer in CONSUMERS
    }


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
