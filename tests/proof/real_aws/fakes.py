"""CloudFormation in memory, and the deployed service as a check sees it.

moto's CloudFormation needs a package that is not installed; the rest of AWS is moto's. A deleted
stack keeps its list of resources, as on AWS.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from once.ops.aws.clients import client
from proof.real_aws.check import Result, run_check
from proof.real_aws.checks import CHECKS, deployments, permissions


def client_error(code: str, operation: str, message: str = "") -> ClientError:
    error: Any = {"Error": {"Code": code, "Message": message}}
    return ClientError(error, operation)


@dataclass
class FakeStacks:
    """CloudFormation's client, with the status and the resources of each stack."""

    status: dict[str, str] = field(default_factory=lambda: {"CDKToolkit": "CREATE_COMPLETE"})
    resources: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def __call__(self, service: str) -> Any:
        """Return the client of a service."""
        return self if service == "cloudformation" else client(service)

    def create(self, name: str, *resources: tuple[str, str]) -> None:
        self.status[name] = "CREATE_COMPLETE"
        self.resources[name] = list(resources)

    def existing(self) -> list[str]:
        return [name for name, status in self.status.items() if status != "DELETE_COMPLETE"]

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803
        if StackName not in self.existing():
            message = f"Stack with id {StackName} does not exist"
            raise client_error("ValidationError", "DescribeStacks", message)
        return {"Stacks": [{"StackName": StackName, "StackStatus": self.status[StackName]}]}

    def delete_stack(self, StackName: str) -> None:  # noqa: N803
        self.status[StackName] = "DELETE_COMPLETE"

    def get_paginator(self, operation: str) -> Any:
        return _Pages(self, operation)


@dataclass
class _Pages:
    stacks: FakeStacks
    operation: str

    def paginate(self, StackName: str = "") -> list[Any]:  # noqa: N803
        if self.operation == "list_stacks":
            names = self.stacks.status
            return [{"StackSummaries": [{"StackName": n, "StackId": f"arn:{n}"} for n in names]}]
        found = self.stacks.resources.get(StackName.removeprefix("arn:"), [])
        listed = [{"ResourceType": kind, "PhysicalResourceId": each} for kind, each in found]
        return [{"StackEvents": listed}]


QUEUE = "once-verify-0-counter"
NO_POLICIES: Mapping[str, Any] = {
    "list_attached_role_policies": {"AttachedPolicies": []},
    "list_role_policies": {"PolicyNames": []},
}


class Api:
    """Clients whose answers are given by operation: a list's one by one, a function's result."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        answers = {**NO_POLICIES, **answers}
        self._answers = {k: [*v] if isinstance(v, list) else v for k, v in answers.items()}
        self.meta = SimpleNamespace(region_name="eu-west-1")

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **_: [getattr(self, operation)()])

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            answer = self._answers.get(operation, {})
            if callable(answer):
                answer = answer(**arguments)
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@dataclass
class FakeTarget:
    """The service as a check sees it, with given amounts and answers.

    Attributes:
        assumed: the clients of every role that a check assumes; None if it cannot.
        posts: the answers to its webhooks.
    """

    answers: Mapping[str, Any] = field(default_factory=dict)
    amount_of: Callable[[str], int] = lambda name: 1
    items: Callable[[str], dict[str, Any]] = lambda name: {}
    dead_letters: tuple[str, ...] = ()
    local: bool = False
    account: str = "123456789012"
    started: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    sent: list[str] = field(default_factory=list)
    assumed: Any = None
    posts: tuple[int, ...] = ()

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

    def emptied(self) -> Any:
        return ()

    def arn(self, url: str) -> str:
        return f"arn:{url}"

    def relay_mapping(self) -> Any:
        return self.api.relay_mapping()

    def redeploy(self, **_: str) -> None:
        time.sleep(0.02)

    def evidence(self) -> Any:
        def messages(url: str) -> list[Any]:
            reasons = self.dead_letters if url == "q" else ()
            return [{"MessageAttributes": {"once-reason": {"StringValue": r}}} for r in reasons]

        return SimpleNamespace(
            dead_letters={"counter": "q", "follower": "other"},
            messages=messages,
        )


class Permitted(Api):
    """An operator's clients, to whom only these operations are permitted."""

    def __init__(self, *operations: str) -> None:
        super().__init__({})
        self._permitted = operations

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            reads = arguments.get("TableName") if operation == "get_item" else None
            if f"{operation} {reads}" not in self._permitted and operation not in self._permitted:
                raise client_error("AccessDenied", operation)
            return {}

        return call


def judged(name: str, target: FakeTarget, seconds: float = 0.05) -> Result:
    """Return the result of a check, with a short deadline."""
    one: Any = next(each for each in CHECKS if each.name == name)
    found: Any = target
    posts, role = iter(target.posts), target.assumed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployments, "post", lambda *_: next(posts))
        patch.setattr(permissions, "_assumed", lambda *_: role and (lambda _: role))
        patience = seconds / one.seconds
        return run_check(one, found, lambda _: None, patience=patience, poll_seconds=0).result
