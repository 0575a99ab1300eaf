"""Policies of operators: they allow every call that the commands make, and no more than needed."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

from once.names import RELAY, UNROUTED
from stacks.consumers import COMMANDS, CONSUMERS
from stacks.folders import ROOT
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import STATE, Cloud, Json, listed
from tests.stacks.policies import Request, allows

OF_REGIONS = {*(ROOT / "once" / "ops").glob("region_*.py")}
"""They need the policy of a service with global tables: tests/stacks/test_global_tables.py."""
OPS = sorted(
    {*(ROOT / "once" / "ops").rglob("*.py")}
    - {ROOT / "once" / "ops" / "template_commands.py", *OF_REGIONS}
)
"""`once template --check` belongs to a deployment, whose role may read what it has made."""
ACTIONS = {
    "SendMessageBatch": ["SendMessage"],
    "DeleteMessageBatch": ["DeleteMessage"],
    "ChangeMessageVisibilityBatch": ["ChangeMessageVisibility"],
    "PublishBatch": ["Publish"],
    "Invoke": ["InvokeFunction"],
    "TransactGetItems": ["GetItem"],
    "TransactWriteItems": ["UpdateItem"],  # each write in it is authorized like a plain one
}
"""IAM's actions for the operations that have another name there."""
READS, CHANGING = ("ReadOnly", "ReadWebhooks"), ("Changes", "SignWebhooks")
POLICIES = (*READS, *CHANGING)
CHANGES = {
    *("SendMessage", "DeleteMessage", "Publish", "InvokeFunction", "UpdateItem"),
    "UpdateEventSourceMapping",
    *("CreateLogStream", "PutLogEvents", "GetSecretValue"),
}


def clients() -> set[str]:
    """Return boto3's names of the services that the commands call."""
    text = "\n".join(path.read_text() for path in (*OPS, *OF_REGIONS))
    return set(re.findall(r'\bclient\(\s*"(\w+)"', text))


@cache
def operations() -> dict[str, set[str]]:
    """Return the IAM actions of every operation of these services, by boto3's method names."""
    session, found = botocore.session.get_session(), dict[str, set[str]]()
    for service in clients():
        for operation in session.get_service_model(service).operation_names:
            names = ACTIONS.get(operation, [operation])
            actions = {f"{service}:{name}" for name in names}
            found.setdefault(xform_name(operation), set()).update(actions)
    return found


def methods(source: str) -> Iterator[str]:
    """Yield the names of attributes, and the texts given to `get_paginator`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name):
                yield name
            case ast.Call(func=ast.Attribute(attr="get_paginator"), args=[ast.Constant(name)]):
                yield str(name)


def called(files: Iterable[Path]) -> set[str]:
    """Return the IAM actions of every call in these files."""
    return {
        action
        for name in {name for path in files for name in methods(path.read_text())}
        for action in operations().get(name, ())
        if action != "sts:GetCallerIdentity"  # needs no permission
        and action != "cloudformation:GetTemplate"  # the method is that of Jinja
        and not action.startswith("s3:")  # the shop has no bucket; see tests/cdk/test_operators.py
    }


CALLED = sorted(called(OPS))


def granted(cloud: Cloud, *policies: str) -> list[Json]:
    return [
        statement
        for policy in policies
        for statement in cloud.of("Operators", policy)["PolicyDocument"]["Statement"]
    ]


def actions(statements: list[Json]) -> set[str]:
    return {action for statement in statements for action in listed(statement["Action"])}


def test_every_call_of_the_commands_is_allowed(cloud: Cloud) -> None:
    assert {"sqs:ReceiveMessage", "dynamodb:Scan", "lambda:InvokeFunction"} <= set(CALLED)
    assert clients() >= {"sqs", "sns", "dynamodb", "lambda", "logs", "cloudformation"}
    assert set(CALLED) - actions(granted(cloud, *POLICIES)) == set()


def test_read_only_changes_nothing_but_the_visibility_of_dead_letters(cloud: Cloud) -> None:
    reads, changes = (actions(granted(cloud, *each)) for each in (READS, CHANGING))
    assert {action.partition(":")[2] for action in reads}.isdisjoint(CHANGES)
    assert {action.partition(":")[2] for action in changes} == CHANGES


def reachable(cloud: Cloud, action: str) -> set[str]:
    """Return the resources on which operators may do something."""
    return {
        cloud.resolved(resource)
        for statement in granted(cloud, *POLICIES)
        if action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def test_each_action_is_allowed_on_the_resources_that_it_needs_only(cloud: Cloud) -> None:
    names = [consumer.name for consumer in CONSUMERS]
    isolating = [consumer.name for consumer in CONSUMERS if consumer.batch_size > 1]
    letters = {
        *(cloud.text(name, "DeadLetters", attribute="Arn") for name in (*names, RELAY)),
        cloud.text(UNROUTED, "Queue", attribute="Arn"),
    }
    queues = {cloud.text(name, "Queue", attribute="Arn") for name in names}
    others = {cloud.text(name, "Isolation", attribute="Arn") for name in isolating}
    others.add(cloud.text(UNROUTED, "Sweep", attribute="Arn"))
    dedup = {cloud.text(STATE, "dedup-records", attribute="Arn")}
    expected = {
        **dict.fromkeys(("ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage"), letters),
        "SendMessage": letters | queues,
        "GetQueueAttributes": letters | queues | others,
    }
    assert {each: reachable(cloud, f"sqs:{each}") for each in expected} == expected
    assert reachable(cloud, "sns:Publish") == {cloud.text("Ingress")}
    assert reachable(cloud, "lambda:InvokeFunction") == {cloud.text(RELAY, "Live")}
    operator_log = {cloud.text(STATE, "operator-log", attribute="Arn")}
    lines = [*names, *(each.name for each in COMMANDS)]
    logs = {cloud.text(name, "Log", attribute="Arn") for name in lines}
    own_logs = {cloud.text(name, "Log", attribute="Arn") for name in (RELAY, UNROUTED)}
    assert reachable(cloud, "logs:FilterLogEvents") == logs | operator_log | own_logs
    for action in ("logs:CreateLogStream", "logs:PutLogEvents"):
        assert reachable(cloud, action) == operator_log
    captures = cloud.text(STATE, "captures", attribute="Arn")
    more = {"GetItem": {captures}, "Query": {f"{captures}/index/by_time"}}
    for action in actions(granted(cloud, *POLICIES)):
        service, _, name = action.partition(":")
        if service == "dynamodb":
            assert reachable(cloud, action) == dedup | more.get(name, set())
    assert reachable(cloud, "secretsmanager:GetSecretValue") == {
        cloud.text(STATE, f"{each.name}-endpoint-secret", attribute="Id")
        for each in WEBHOOKS.endpoints
    }


def test_a_dedup_record_is_changed_in_a_transaction_only(cloud: Cloud) -> None:
    statements = [
        statement | {"Resource": [cloud.resolved(each) for each in listed(statement["Resource"])]}
        for statement in granted(cloud, *POLICIES)
    ]
    table = cloud.text(STATE, "dedup-records", attribute="Arn")
    inside = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
    assert allows(Request("dynamodb:UpdateItem", table, inside), statements)
    assert not allows(Request("dynamodb:UpdateItem", table), statements)
