"""The deployed service as a check sees it, with given amounts and answers of AWS."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from proof.real_aws.check import Result, run_check
from proof.real_aws.checks import CHECKS
from tests.proof.real_aws.fake_stacks import client_error

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
    """The service as a check sees it, with given amounts and answers."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    amount_of: Callable[[str], int] = lambda name: 1
    items: Callable[[str], dict[str, Any]] = lambda name: {}
    dead_letters: tuple[str, ...] = ()
    local: bool = False
    account: str = "123456789012"
    started: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    sent: list[str] = field(default_factory=list)

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

    def mapping(self, _: str) -> Any:
        return self.api.mapping()

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
    patience = seconds / one.seconds
    return run_check(one, found, lambda _: None, patience=patience, poll_seconds=0).result
