"""A consumer that starts a workflow, and the two services that run workflows.

Step Functions is moto's, which answers StartExecution as AWS documents it: a running execution
with the same name and input is returned, any other one with the name is `ExecutionAlreadyExists`.
Durable functions are a stub at the SDK's boundary, built from the table "Idempotency behavior" in
the Lambda developer guide. It has never been compared with AWS.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import boto3
from msgspec import Struct

from once import Consumer, Transaction, durable_function, state_machine
from once.effects.declaration import Effect
from once.effects.workflow_starts import _client
from once.testing import Fault, inject
from tests.once.effects.provider import Provider, Till
from tests.once.support import COUNTERS, Note, die

REGION = "us-east-1"
FUNCTION_ARN = f"arn:aws:lambda:{REGION}:123456789012:function:fulfil:live"
VARIABLE = "WORKFLOW_FULFILMENT"
SETTINGS: dict[str, Any] = {"effect_timeout_seconds": 4}


class Fulfilment(Struct, frozen=True):
    name: str
    amount: int


class StepFunctions:
    """Step Functions in memory (moto), with one standard state machine.

    Attributes:
        operation: the operation that starts an execution.
        taken: the code of the answer for a name whose input differs.
    """

    operation = "StartExecution"
    taken = "ExecutionAlreadyExists"

    def deploy(self) -> None:
        definition = {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True}}}
        self._own = boto3.client("stepfunctions", REGION)
        self.arn = self._own.create_state_machine(
            name="fulfil",
            definition=json.dumps(definition),
            roleArn="arn:aws:iam::123456789012:role/r",
        )["stateMachineArn"]

    @property
    def client(self) -> Any:
        return _client("stepfunctions", REGION)

    def declare(self, consumer: Consumer, model: type[Struct]) -> Effect[Any, Any]:
        return state_machine(consumer, "fulfilment", model)

    def started(self) -> list[tuple[str, Any]]:
        arns = [each["executionArn"] for each in self._executions()]
        describe = self._own.describe_execution
        return [(arn, json.loads(describe(executionArn=arn)["input"])) for arn in arns]

    def occupy(self, name: str, request: Any) -> None:
        self._own.start_execution(stateMachineArn=self.arn, name=name, input=json.dumps(request))

    def end(self) -> None:
        for execution in self._executions():
            self._own.stop_execution(executionArn=execution["executionArn"])

    def _executions(self) -> list[Any]:
        return list(self._own.list_executions(stateMachineArn=self.arn)["executions"])


class DurableFunctions:
    """Lambda's documented answers to an Invoke with a name, for one durable function."""

    operation = "Invoke"
    taken = "DurableExecutionAlreadyStartedException"

    def __init__(self) -> None:
        self._executions: dict[str, tuple[str, bytes]] = {}
        self.is_durable = True

    def deploy(self) -> None:
        self.arn = FUNCTION_ARN

    @property
    def client(self) -> Any:
        return _client("lambda", REGION)

    def declare(self, consumer: Consumer, model: type[Struct]) -> Effect[Any, Any]:
        return durable_function(consumer, "fulfilment", model)

    def started(self) -> list[tuple[str, Any]]:
        return [(arn, json.loads(payload)) for arn, payload in self._executions.values()]

    def occupy(self, name: str, request: Any) -> None:
        self._executions[name] = (self._arn_of(name), json.dumps(request).encode())

    def end(self) -> None:
        """Do nothing: until its retention ends, an ended execution is returned like another."""

    @contextmanager
    def answering(self) -> Iterator[None]:
        event = "before-call.lambda.Invoke"
        self.client.meta.events.register_last(event, self._invoke)
        try:
            yield
        finally:
            self.client.meta.events.unregister(event, self._invoke)

    def _invoke(self, params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        assert params["headers"]["X-Amz-Invocation-Type"] == "Event"
        name, payload = params["headers"]["X-Amz-Durable-Execution-Name"], params["body"]
        arn, known = self._executions.setdefault(name, (self._arn_of(name), payload))
        if known != payload:
            return _response(409, {"Error": {"Code": self.taken, "Message": arn}})
        return _response(202, {"DurableExecutionArn": arn} if self.is_durable else {})

    def _arn_of(self, name: str) -> str:
        return f"{FUNCTION_ARN.replace(':live', ':7')}/durable-execution/{name}/0"


def _response(status: int, body: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    metadata = {"ResponseMetadata": {"HTTPStatusCode": status}}
    return SimpleNamespace(status_code=status), body | metadata


Service = StepFunctions | DurableFunctions


class Starter(Till):
    """A consumer that starts one workflow for each event, in an AWS in memory."""

    def __init__(self, aws: Any, consumer: Consumer, service: Service) -> None:
        super().__init__(aws, consumer, Provider())
        self.service = service

    @contextmanager
    def at_start(self, *faults: Fault | None) -> Iterator[None]:
        """Let the next starts meet these faults, all of them; None lets one through."""
        with inject(self.service.client, self.service.operation, *faults) as left:
            yield
        assert left == []

    @contextmanager
    def killed_at_start(self, *, done: bool) -> Iterator[None]:
        """Kill the function at its start of the workflow, before or after."""

        def end(**_: Any) -> None:
            die()

        events, moment = self.service.client.meta.events, "after" if done else "before"
        name = f"{moment}-call.{events_name(self.service.client)}.{self.service.operation}"
        events.register_first(name, end)
        try:
            yield
        finally:
            events.unregister(name, end)

    def assert_started_once(self) -> None:
        """Assert one execution, whose ARN one completion has stored."""
        [(arn, request)] = self.service.started()
        assert request == {"name": "a", "amount": 1}
        assert self.aws.items("counters") == [{"name": "a", "execution": arn}]
        assert self.standing == "done"
        assert self.dead_letters() == []


def events_name(client: Any) -> str:
    """Return the name of a client's service in botocore's events."""
    return str(client.meta.service_model.service_id.hyphenize())


def starting_consumer(service: Service, model: type[Struct] = Fulfilment) -> Consumer:
    consumer = Consumer("notes")
    consumer.table("counters")
    fulfil = service.declare(consumer, model)

    @consumer.handles("noted", Note)
    def begin(event: Note, tx: Transaction) -> None:
        tx.perform(fulfil, model(event.name, event.amount))

    @consumer.completes(fulfil)
    def begun(event: Note, execution: str, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": event.name, "execution": execution})

    return consumer
