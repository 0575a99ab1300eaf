"""A cold start imports what its function uses, and no more. Modules are counted, not time."""

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from once.cdk.packaging.function_package import package
from once.names import RELAY, UNROUTED
from stacks.folders import ROOT
from stacks.webhooks import WEBHOOKS
from tests.cdk.packages import EVERY, HERE, Function
from tests.stacks.cloud import Cloud, environment

CONSUMER = 58
OTHERS = {"payments": 128, WEBHOOKS.name: 48, RELAY: 72, UNROUTED: 65}
"""Modules beside those of boto3 with one client. Stripe's library and asyncio are seventy."""

PACKAGES = {
    f"once.{path.parent.name}": path
    for path in (ROOT / "once").glob("*/__init__.py")
    if path.parent.name not in {"testing", "cdk", "ops"}
}
"""Packages of the library, whose `__init__` is a docstring."""

NEVER = (
    "aws_lambda_powertools.event_handler",
    "aws_lambda_powertools.utilities.batch",
    "aws_lambda_powertools.utilities.data_classes",
    "aws_lambda_powertools.utilities.parameters",
    "aws_lambda_powertools.utilities.idempotency",
    "aws_lambda_powertools.utilities.parser",
    "aws_xray_sdk",
    "jsonschema",
    "moto",
    "nacl",
    "mypy_boto3_dynamodb",
    "once.cdk",
    "once.ops",
    "once.testing",
    "opentelemetry",
    "once.effects.workflow_starts",
    "pydantic",
    "requests",
    "stacks",
    "standardwebhooks",
    "unittest",
)
ALONE = {
    "asyncio": "payments",
    "stripe": "payments",
    "once.webhooks.ingress": WEBHOOKS.name,
    "once.outbox.relay": RELAY,
    "once.outbox.unrouted": UNROUTED,
}
"""Modules that only one function may import."""

# The handler makes its clients with `boto3.client`, which counts them.
CODE = """
import json, sys
sys.path.insert(0, {folder!r})
import boto3
make, clients = boto3.client, []
make("dynamodb")
boto3.client = lambda name, *more, **options: clients.append(name) or make(name, *more, **options)
before = {{*sys.modules}}
import {module}
print(json.dumps([[*{{*sys.modules}} - before], clients]))
"""


class Start(NamedTuple):
    """A cold start: the modules that boto3 with one client had not loaded, and the clients."""

    function: str
    modules: list[str]
    clients: list[str]


def start_of(which: Function, cloud: Cloud) -> Start:
    """Import as Lambda does: with the function's environment and its package only."""
    code = CODE.format(folder=str(package(*which, HERE)), module=f"functions.{which.name}.handler")
    lambdas = {"AWS_LAMBDA_FUNCTION_NAME": which.name, "AWS_DEFAULT_REGION": "eu-west-1"}
    printed = subprocess.check_output(
        [sys.executable, "-I", "-S", "-B", "-c", code],
        env={**lambdas, **environment(cloud, which.name)},
        cwd=os.sep,
    )
    return Start(which.name, *json.loads(printed))


@pytest.fixture(scope="module", params=EVERY, ids=lambda function: str(function.name))
def start(request: pytest.FixtureRequest, local_cloud: Cloud) -> Start:
    return start_of(request.param, local_cloud)


def found_in(modules: Iterable[str], names: Iterable[str]) -> list[str]:
    return [n for n in names if any(f"{module}.".startswith(f"{n}.") for module in modules)]


def over_budget(start: Start) -> str:
    """Return a message on a function that imports too much; empty if it does not."""
    budget = OTHERS.get(start.function, CONSUMER)
    over = len([m for m in start.modules if m not in PACKAGES]) - budget
    if over <= 0:
        return ""
    packages = Counter(module.split(".")[0] for module in start.modules).most_common(12)
    return (
        f"{start.function} imports {over} modules more than its budget. Beside boto3 there are: "
        f"{', '.join(f'{name} {count}' for name, count in packages)}. Import what only annotations "
        "need under TYPE_CHECKING, or raise the budget here if all of it is used"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_holds_nothing_but_its_docstring(package: str) -> None:
    [statement] = ast.parse(PACKAGES[package].read_text()).body
    assert isinstance(statement, ast.Expr)


def test_a_cold_start_keeps_to_its_budget(start: Start) -> None:
    assert not over_budget(start), over_budget(start)


def test_a_cold_start_imports_its_own_modules_and_those_of_no_other(start: Start) -> None:
    owned = [name for name, owner in ALONE.items() if owner == start.function]
    assert found_in(start.modules, [*NEVER, *ALONE]) == owned


def test_a_cold_start_makes_the_clients_of_every_invocation_only(start: Start) -> None:
    # The clients for dead letters, delays and large data are made with the first of them.
    ingress = ["dynamodb", "secretsmanager"]
    clients = {RELAY: ["sns", "scheduler"], UNROUTED: [], WEBHOOKS.name: ingress}
    assert start.clients == clients.get(start.function, ["dynamodb"])
