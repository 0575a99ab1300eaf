"""Every statement of every service: AWS's reference, the calls of the code, and its resources."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from once.cdk import ConsumerProps, Dedup, DurableFunctionProps, StateMachineProps
from once.cdk.app.stacks import CAPTURES
from once.cdk.deployment_options import DEDUP
from once.names import RELAY, UNROUTED
from proof.crashpoints.sites import EXPLORED, LEFT_OUT
from stacks.consumers import COMMANDS, CONSUMERS
from stacks.webhooks import WEBHOOKS
from tests.stacks import large_service as large
from tests.stacks.booking_office import LINES
from tests.stacks.cloud import (
    STATE,
    Cloud,
    Json,
    flat,
    further_policies,
    listed,
    name_of,
    role_statements,
    statements,
    types,
)
from tests.stacks.full_service import DESK, MORE, ON_ITEMS, STARTS, Stacks
from tests.stacks.iam_reference import faults, followed, size
from tests.stacks.large_service import large_service

DOCUMENTS = ("PolicyDocument", "AssumeRolePolicyDocument", "KeyPolicy")


Templates = dict[str, Json]


@pytest.fixture(scope="module")
def services(
    cloud: Cloud, stacks: Stacks, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Templates]:
    """The stacks of the shop, of both stages of the full service, and of the large service."""
    stages = {
        name: {each.stack_name: each.template for each in stacks.of(name)}
        for name in ("test", "prod")
    }
    shop = {"once-state": cloud.state, "once-service": cloud.service}
    return stages | {"shop": shop, "large": large_service(tmp_path_factory.mktemp("large"))}


def resources(templates: Templates) -> Iterator[tuple[str, str, Json]]:
    """Yield each resource with its stack and its logical id."""
    for stack, template in templates.items():
        for logical_id, resource in template["Resources"].items():
            yield stack, logical_id, resource


def documents(resource: Json) -> Iterator[Json]:
    properties = resource.get("Properties", {})
    for holder in (properties, *properties.get("Policies", ())):
        yield from (holder[name] for name in DOCUMENTS if name in holder)


@pytest.mark.parametrize("service", ["shop", "test", "prod", "large"])
def test_no_statement_differs_from_awss_reference_and_no_policy_is_larger_than_iam_takes(
    services: dict[str, Templates], service: str
) -> None:
    found, templates = list[str](), services[service]
    for stack, logical_id, resource in resources(templates):
        further = further_policies(templates[stack], logical_id)
        every = followed([*documents(resource), *further], stack, templates)
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
    "large-settings": lambda line: line in large.LINES and line.name in large.STORED,
}
"""The traits of a consumer's role. Others are those of every role, and a function's name."""


def machines(line: ConsumerProps) -> list[str]:
    return [each.arn for each in line.starts if isinstance(each, StateMachineProps)]


OUTSIDE = {
    "functions.payments.provider.charge payments.GET /v1/payment_intents",
    "functions.payments.provider.charge payments.POST /v1/payment_intents",
    "functions.payments.provider.find_charge payments.GET /v1/charges",
    "functions.payments.provider.find_refund payments.GET /v1/refunds",
    "functions.payments.provider.refund payments.POST /v1/refunds",
}
"""Calls that IAM does not authorize."""


def test_every_call_of_a_function_has_its_actions() -> None:
    calls = {call for call in (*EXPLORED, *LEFT_OUT) if not call.startswith("once.ops.")}
    listed_calls = {use.by for use in USES if not use.by.startswith("https:")}
    assert listed_calls == calls - OUTSIDE


def rights(templates: Templates, function: str) -> dict[str, set[str]]:
    """Return the actions of a function's role, by statement; without those on keys."""
    return {
        statement["Sid"].rstrip("0123456789"): {*listed(statement["Action"])}
        for _, statement in role_statements(templates, function)
        if not statement["Sid"].startswith("UseKey")
    }


@pytest.mark.parametrize("service", ["shop", "test", "prod", "large"])
def test_each_role_may_do_what_its_function_calls_and_nothing_else(
    services: dict[str, Templates], service: str
) -> None:
    with_options = (*LINES, *MORE, ON_ITEMS, STARTS)
    lines = {"shop": CONSUMERS, "large": large.LINES}.get(service, with_options)
    traits = {
        line.name: {trait for trait, has in LINES_WITH.items() if has(line)} for line in lines
    }
    traits |= {name: {name} for name in (RELAY, UNROUTED)}
    traits[RELAY] |= set() if service == "large" else {"schedules"}
    traits[UNROUTED] |= {"further-stacks"} if service in ("prod", "large") else set()
    if service != "large":
        further = set() if service == "shop" else {"large-webhooks"}
        traits[WEBHOOKS.name] = {WEBHOOKS.name} | further
        commands = COMMANDS if service == "shop" else (DESK,)
        traits |= {line.name: {"commands", "tables"} for line in commands}
    common = {"every"} | ({"network"} if service in ("prod", "large") else set())
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


# The resources of each statement. `test_boundaries` evaluates the conditions on tables and topics.


SCHEDULES = "arn:<AWS::Partition>:scheduler:<AWS::Region>:<AWS::AccountId>:schedule"
Resources = dict[str, set[str]]
"""The resources of a role's statements, by the statements' names."""


def reached(cloud: Cloud, owner: ConsumerProps | str) -> Resources:
    return {
        s["Sid"]: {cloud.resolved(resource) for resource in listed(s["Resource"])}
        for s in statements(cloud, owner)
    }


def condition(cloud: Cloud, owner: ConsumerProps | str, sid: str) -> Json | None:
    [found] = [s.get("Condition") for s in statements(cloud, owner) if s["Sid"] == sid]
    return found


def in_state(cloud: Cloud, *names: str, attribute: str = "Arn") -> set[str]:
    return {cloud.text(STATE, name, attribute=attribute) for name in names}


def arns(cloud: Cloud, owner: ConsumerProps | str, *parts: str) -> set[str]:
    return {cloud.text(owner, part, attribute="Arn") for part in parts}


def common(cloud: Cloud, owner: ConsumerProps | str) -> Resources:
    return {"Log": arns(cloud, owner, "Log"), "Trace": {"*"}}  # X-Ray has no resources


def of_records(cloud: Cloud) -> Resources:
    return dict.fromkeys(
        ("WriteOwnRecordsInTransactions", "ReadOwnRecords"), in_state(cloud, DEDUP)
    )


def test_a_consumer_reaches_its_own_resources_only(cloud: Cloud, consumer: ConsumerProps) -> None:
    isolation = ["Isolation"] if consumer.batch_size > 1 else []
    tables = in_state(cloud, *(table.name for table in consumer.tables))
    expected = {
        **of_records(cloud),
        **dict.fromkeys(("WriteInTransactions", "CheckInTransactions", "Read"), tables),
        "ConsumeOwnQueues": arns(cloud, consumer, "Queue", *isolation),
        "Quarantine": arns(cloud, consumer, "DeadLetters"),
        **common(cloud, consumer),
    }
    if isolation:
        expected["Isolate"] = arns(cloud, consumer, *isolation)
    if consumer.secrets:
        secrets = (f"{name}-secret" for name in consumer.secrets)
        expected["ReadSecrets"] = in_state(cloud, *secrets, attribute="Id")
    if consumer.sends_email:
        place = "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>"
        expected["SendEmail"] = {f"{place}:identity/*", f"{place}:configuration-set/*"}
        only = {"StringEquals": {"ses:FromAddress": "orders@example.com"}}
        assert condition(cloud, consumer, "SendEmail") == only
    assert reached(cloud, consumer) == expected


def test_the_librarys_functions_reach_their_own_resources_only(cloud: Cloud) -> None:
    [bucket] = in_state(cloud, "relay-failures")
    assert reached(cloud, RELAY) == {
        "ReadStream": in_state(cloud, DEDUP, attribute="StreamArn"),
        "Publish": {cloud.text("Events")},
        "Quarantine": arns(cloud, RELAY, "DeadLetters"),
        "KeepFailures": {bucket, f"{bucket}/*"},
        "CreateSchedules": {f"{SCHEDULES}/<PublishOutputRefschedulesF1F0929B>/*"},
        "PassScheduleRole": arns(cloud, RELAY, "ScheduleRole"),
        **common(cloud, RELAY),
    }
    own = {"StringEquals": {"s3:ResourceAccount": {"Ref": "AWS::AccountId"}}}
    assert condition(cloud, RELAY, "KeepFailures") == own
    assert reached(cloud, UNROUTED) == {
        "ConsumeSweep": arns(cloud, UNROUTED, "Sweep"),
        "KeepUnrouted": arns(cloud, UNROUTED, "Queue"),
        **common(cloud, UNROUTED),
    }


def record_conditions(name: str) -> tuple[Json, Json]:
    in_transactions = {
        "ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
    }
    own = {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{name}#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
    return in_transactions, own


def test_the_ingress_reaches_its_own_resources_and_keys_only(cloud: Cloud) -> None:
    name, secret = WEBHOOKS.name, "stripe-endpoint-secret"
    assert reached(cloud, name) == {
        **of_records(cloud),
        "CaptureInTransactions": in_state(cloud, CAPTURES),
        "ReadSecrets": in_state(cloud, secret, attribute="Id"),
        **common(cloud, name),
    }
    in_transactions, own = record_conditions(name)
    assert condition(cloud, name, "CaptureInTransactions") == in_transactions
    assert condition(cloud, name, "WriteOwnRecordsInTransactions") == in_transactions | own


def test_commands_write_their_tables_and_records_of_their_name_in_transactions_only(
    cloud: Cloud,
) -> None:
    for line in COMMANDS:
        tables = in_state(cloud, *(table.name for table in line.tables))
        assert reached(cloud, line.name) == {
            **of_records(cloud),
            **dict.fromkeys(("WriteInTransactions", "CheckInTransactions", "Read"), tables),
            **common(cloud, line.name),
        }
        in_transactions, own = record_conditions(line.name)
        assert condition(cloud, line.name, "WriteInTransactions") == in_transactions
        found = condition(cloud, line.name, "WriteOwnRecordsInTransactions")
        assert found == in_transactions | own


@pytest.mark.parametrize("owner", [*CONSUMERS, RELAY, UNROUTED], ids=name_of)
def test_only_lambda_assumes_a_role_and_no_other_policy_adds_to_it(
    cloud: Cloud, owner: ConsumerProps | str
) -> None:
    role = cloud.of(owner, "Role")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}
    assert "ManagedPolicyArns" not in role
    assert "AWS::IAM::Policy" not in types(cloud.service)
    for policy in cloud.every("AWS::IAM::ManagedPolicy").values():  # those of operators
        assert not {"Roles", "Users", "Groups"} & policy.keys()
        assert policy["Description"] == ""  # a changed one would replace an attached policy
    assert flat(cloud.of(owner, "Function")["Role"]) == cloud.text(owner, "Role", attribute="Arn")
