"""Every statement of every service in the tests: AWS's reference, and the calls of the code."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from once.cdk import ConsumerProps, Dedup, DurableFunctionProps, StateMachineProps
from once.names import RELAY, UNROUTED
from proof.crashpoints.sites import EXPLORED, LEFT_OUT
from stacks.consumers import CONSUMERS
from tests.stacks.booking_office import LINES
from tests.stacks.cloud import Cloud, Json, listed
from tests.stacks.full_service import MORE, ON_ITEMS, STARTS, Stacks
from tests.stacks.iam_reference import faults, followed, size

DOCUMENTS = ("PolicyDocument", "AssumeRolePolicyDocument", "KeyPolicy")
WEBHOOKS = "webhooks"


Templates = dict[str, Json]


@pytest.fixture(scope="module")
def services(cloud: Cloud, stacks: Stacks) -> dict[str, Templates]:
    """The stacks of the shop, and of both stages of the service with every option."""
    stages = {
        name: {each.stack_name: each.template for each in stacks.of(name)}
        for name in ("test", "prod")
    }
    return stages | {"shop": {"once-state": cloud.state, "once-service": cloud.service}}


def resources(templates: Templates) -> Iterator[tuple[str, str, Json]]:
    """Yield each resource with its stack and its logical id."""
    for stack, template in templates.items():
        for logical_id, resource in template["Resources"].items():
            yield stack, logical_id, resource


def documents(resource: Json) -> Iterator[Json]:
    properties = resource.get("Properties", {})
    for holder in (properties, *properties.get("Policies", ())):
        yield from (holder[name] for name in DOCUMENTS if name in holder)


@pytest.mark.parametrize("service", ["shop", "test", "prod"])
def test_no_statement_differs_from_awss_reference_and_no_policy_is_larger_than_iam_takes(
    services: dict[str, Templates], service: str
) -> None:
    found, templates = list[str](), services[service]
    for stack, logical_id, resource in resources(templates):
        every = followed([*documents(resource)], stack, templates)
        found += [
            f"{logical_id} {statement.get('Sid')}: {fault}"
            for document in every
            for statement in document["Statement"]
            for fault in faults(statement)
        ]
        most = {"AWS::IAM::ManagedPolicy": 6144, "AWS::IAM::Role": 10_240}.get(resource["Type"])
        found += [f"{logical_id}: over {most}"] * bool(most and sum(map(size, every)) > most)
    assert found == []


class Use(NamedTuple):
    """Actions of a statement, the traits of the roles that have it, and what calls the actions.

    That is a call of the code, or a page of AWS's documentation if a service makes the call.
    """

    statement: str
    actions: str
    roles: str
    by: str


with Path(__file__).with_name("rights.csv").open() as _file:
    USES = [Use(*row) for row in csv.reader(_file)]
"""Every use of a function's role. Statements on keys (`UseKey…`) have a test of their own."""

LINES_WITH: dict[str, Callable[[ConsumerProps], object]] = {
    "consumer": lambda line: True,
    "records": lambda line: line.dedup is Dedup.RECORD,
    "ledger": lambda line: line.has_effects and line.dedup is Dedup.RECORD,
    "tables": lambda line: line.tables and line.dedup is Dedup.RECORD,
    "items": lambda line: line.dedup is Dedup.ITEM,
    "items-in-groups": lambda line: line.dedup is Dedup.ITEM and line.group_size > 1,
    "items-alone": lambda line: line.dedup is Dedup.ITEM and line.group_size == 1,
    "isolation": lambda line: line.batch_size > 1 and not line.fifo,
    "claims": lambda line: line.claim_check_mb,
    "claims-to-publish": lambda line: line.claim_check_mb and line.publishes,
    "secrets": lambda line: line.secrets,
    "email": lambda line: line.sends_email,
    "machine": lambda line: machines(line),
    "plain-machine": lambda line: any(arn.count(":") == 6 for arn in machines(line)),
    "qualified-machine": lambda line: any(arn.count(":") > 6 for arn in machines(line)),
    "durable-function": lambda line: any(isinstance(w, DurableFunctionProps) for w in line.starts),
}
"""The traits of a consumer's role. Others are those of every role, and a function's name.

No role of these services is of `large-settings`: no settings here are too large for a variable.
`tests/cdk/test_idempotent_consumer.py` makes such a consumer.
"""


def machines(line: ConsumerProps) -> list[str]:
    return [each.arn for each in line.starts if isinstance(each, StateMachineProps)]


OUTSIDE = {
    "functions.payments.provider.charge payments.GET /v1/payment_intents",
    "functions.payments.provider.charge payments.POST /v1/payment_intents",
    "functions.payments.provider.find_charge payments.GET /v1/charges",
}
"""Calls that IAM does not authorize."""


def test_every_call_of_a_function_has_its_actions() -> None:
    calls = {call for call in (*EXPLORED, *LEFT_OUT) if not call.startswith("once.ops.")}
    listed_calls = {use.by for use in USES if not use.by.startswith("https:")}
    assert listed_calls == calls - OUTSIDE


def rights(templates: Templates, function: str) -> dict[str, set[str]]:
    """Return the actions of a function's role, by statement; without those on keys."""
    place = f"/{function}/Role/Resource"
    [role] = [
        each
        for _, _, each in resources(templates)
        if each.get("Metadata", {}).get("aws:cdk:path", "").endswith(place)
    ]
    return {
        statement["Sid"].rstrip("0123456789"): {*listed(statement["Action"])}
        for policy in role["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if not statement["Sid"].startswith("UseKey")
    }


@pytest.mark.parametrize("service", ["shop", "test", "prod"])
def test_each_role_may_do_what_its_function_calls_and_nothing_else(
    services: dict[str, Templates], service: str
) -> None:
    lines = CONSUMERS if service == "shop" else (*LINES, *MORE, ON_ITEMS, STARTS)
    traits = {
        line.name: {trait for trait, has in LINES_WITH.items() if has(line)} for line in lines
    }
    traits |= {name: {name} for name in (RELAY, UNROUTED)}
    traits[UNROUTED] |= {"further-stacks"} if service == "prod" else set()
    traits[WEBHOOKS] = {WEBHOOKS} | ({"large-webhooks"} if service != "shop" else set())
    common = {"every"} | ({"network"} if service == "prod" else set())
    for name, own in traits.items():
        uses = {
            (use.statement, action)
            for use in USES
            if {*use.roles.split()} & (own | common)
            for action in use.actions.split()
        }
        granted = {
            (statement, action)
            for statement, actions in rights(services[service], name).items()
            for action in actions
        }
        assert (name, granted - uses, uses - granted) == (name, set(), set())
