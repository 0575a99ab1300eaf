"""Consumers of other kinds: with large data, dedup on the item, or a workflow that they start."""

import json
from typing import Any

from demo.quiescence import wait_until
from once.events.claim_check import Reference
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


def test_two_messages_of_an_event_start_one_execution(service: Deployment) -> None:
    iam, states = service.aws.client("iam"), service.aws.client("stepfunctions")
    role = iam.create_role(RoleName="launch", AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]
    machine = states.create_state_machine(
        name="launch", definition=json.dumps(DEFINITION), roleArn=role["Arn"]
    )["stateMachineArn"]
    event = cloud_event("launch.asked", {"counter": "started"})
    service.send("launch", event, event)
    service.wait_until_empty("launch")
    [execution] = states.list_executions(stateMachineArn=machine)["executions"]
    assert service.get("counters", id="started")["execution"] == execution["executionArn"]
    assert service.take("launch") == []
