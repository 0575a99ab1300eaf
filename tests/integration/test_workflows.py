"""State machines of the embedded AWS, started by a consumer with the SDK's own requests.

The embedded AWS refuses each name that it knows, also that of a running execution with an equal
input, which AWS returns. So the input of the existing execution decides here each time.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest

from emulator.embedded_aws import EmbeddedAws
from once import Consumer, Transaction, state_machine
from once.consumer import Runtime
from once.effects.workflows import _step_functions
from once.testing import FakeContext, answer_lost, inject
from tests.integration.probe import Bench, Change, event, record

REGION = "us-east-1"
TRUST = {
    "Version": "2012-10-17",
    "Statement": {
        "Effect": "Allow",
        "Principal": {"Service": "states.amazonaws.com"},
        "Action": "sts:AssumeRole",
    },
}
DEFINITION = {"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}


@dataclass
class Machine:
    """A state machine, and the consumer that starts it."""

    bench: Bench
    client: Any
    arn: str

    def deliver(self, *events: Any) -> list[Any]:
        """Deliver each event as a batch of its own; return the messages that failed."""
        consumer = Consumer("probe")
        counters = consumer.table("counters")
        count = state_machine(consumer, "count", Change)

        @consumer.handles("added", Change)
        def begin(change: Change, tx: Transaction) -> None:
            tx.perform(count, change)

        @consumer.completes(count)
        def begun(change: Change, execution: str, tx: Transaction) -> None:
            tx.update(counters, {"id": change.counter}, "ADD amount :by", {":by": change.by})

        settings = replace(self.bench.settings, event_types=("added",), effect_timeout_seconds=4)
        handle = consumer.bound_to(Runtime.of(settings))
        batches = [{"Records": [record(each, receive_count=1)]} for each in events]
        answers = [handle(batch, FakeContext(60_000)) for batch in batches]
        return [failure for answer in answers for failure in answer["batchItemFailures"]]

    @property
    def executions(self) -> list[str]:
        found = self.client.list_executions(stateMachineArn=self.arn)["executions"]
        return [str(execution["executionArn"]) for execution in found]


@pytest.fixture
def machine(bench: Bench, aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    client: Any = aws.client("stepfunctions")
    iam: Any = aws.client("iam")
    name = f"count-{uuid4().hex[:8]}"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]
    made = client.create_state_machine(
        name=name, definition=json.dumps(DEFINITION), roleArn=role["Arn"]
    )
    monkeypatch.setenv("WORKFLOW_COUNT", made["stateMachineArn"])
    _step_functions.cache_clear()  # a client keeps the endpoint that it was made with
    yield Machine(bench, client, made["stateMachineArn"])
    _step_functions.cache_clear()


def test_a_state_machine_is_started_once_and_a_name_with_another_input_is_a_conflict(
    machine: Machine,
) -> None:
    same = event("added", "visits", by=3, event_id="e-1")
    with inject(_step_functions(REGION), "StartExecution", answer_lost()) as left:
        assert machine.deliver(same, same) == []
    [execution] = machine.executions
    assert execution.rpartition(":")[2].startswith("once-")
    assert (left, machine.bench.amount("visits"), machine.bench.reasons()) == ([], 3, [])
    [item] = machine.bench.dynamodb.scan(TableName=machine.bench.dedup)["Items"]
    machine.bench.dynamodb.delete_item(
        TableName=machine.bench.dedup, Key={"pk": item["pk"]}
    )  # as if the dedup window were over
    machine.deliver(event("added", "visits", by=2, event_id="e-1"))
    assert machine.executions == [execution]
    assert machine.bench.reasons() == ["key-conflict"]
    assert machine.bench.amount("visits") == 3
