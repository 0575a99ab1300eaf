"""The synthesized policies, evaluated for single requests (S1, S2)."""

import pytest

from once.cdk.props import ConsumerProps
from once.names import RELAY
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import STATE, Cloud, Json, flat, listed, statements
from tests.stacks.policies import Request, allows

TRANSACTION = "TransactWriteItems"
ADMINISTRATOR: list[Json] = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]


def rights(cloud: Cloud, owner: ConsumerProps | str) -> list[Json]:
    """Return a role's statements, their resources as text."""
    return [
        statement | {"Resource": [cloud.resolved(each) for each in listed(statement["Resource"])]}
        for statement in statements(cloud, owner)
    ]


def may(
    cloud: Cloud,
    consumer: ConsumerProps,
    action: str,
    *keys: str,
    table: str = "dedup-records",
    enclosing: str | None = TRANSACTION,
) -> bool:
    """Tell whether a consumer's role allows an action on items of a table.

    Args:
        keys: the items' partition keys; none if the request does not name them.
        enclosing: the operation that the action is part of, if any.
    """
    context = {
        **({"dynamodb:LeadingKeys": keys} if keys else {}),
        **({"dynamodb:EnclosingOperation": [enclosing]} if enclosing else {}),
    }
    arn = cloud.text(STATE, table, attribute="Arn")
    return allows(Request(f"dynamodb:{action}", arn, context), rights(cloud, consumer))


@pytest.mark.parametrize(
    ("action", "enclosing"), [("PutItem", TRANSACTION), ("BatchGetItem", None)]
)
def test_s1_every_key_of_a_request_must_be_the_consumers_own(
    cloud: Cloud, consumer: ConsumerProps, action: str, enclosing: str | None
) -> None:
    identity = consumer.identity
    others = {line.identity for line in CONSUMERS} - {identity}
    others |= {f"{identity}_archive", identity.upper(), ""}
    own, *foreign = (f"{name}#event#/shop#e-1" for name in (identity, *others))
    assert may(cloud, consumer, action, own, own, enclosing=enclosing)
    for keys in ((), *((own, key) for key in foreign)):
        assert not may(cloud, consumer, action, *keys, enclosing=enclosing)


def test_s1_a_consumer_only_adds_records_in_transactions_and_only_the_ledger_updates_one(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    own = f"{consumer.identity}#event#/shop#e-1"
    assert may(cloud, consumer, "UpdateItem", own) is consumer.has_effects
    others = ("DeleteItem", "ConditionCheckItem", "GetItem", "Scan", "Query", "BatchWriteItem")
    assert [each for each in others if may(cloud, consumer, each, own)] == []
    for enclosing in (None, "BatchWriteItem", "PutItem"):
        assert not may(cloud, consumer, "PutItem", own, enclosing=enclosing)


def test_a_consumer_writes_its_own_tables_in_transactions_only(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    for table in (table for line in CONSUMERS for table in line.tables):
        allowed = may(cloud, consumer, "UpdateItem", table=table.name)
        assert allowed is (table in consumer.tables)
        assert not may(cloud, consumer, "UpdateItem", table=table.name, enclosing=None)


def may_publish(cloud: Cloud, topic: str, arn: str, identity: list[Json]) -> bool:
    policy = cloud.of(topic, "Policy")["PolicyDocument"]["Statement"]
    context = {"aws:PrincipalArn": [arn], "aws:SecureTransport": ["true"]}
    request = Request("sns:Publish", cloud.text(topic), context)
    return allows(request, identity, [_as_text(statement) for statement in policy])


def _as_text(statement: Json) -> Json:
    condition = {
        operator: {key: [flat(value) for value in listed(values)] for key, values in keys.items()}
        for operator, keys in statement["Condition"].items()
    }
    return statement | {"Resource": flat(statement["Resource"]), "Condition": condition}


@pytest.mark.parametrize(("topic", "allowed"), [("Events", True), ("Ingress", False)])
def test_s2_the_relay_publishes_events_and_nothing_to_ingress(
    cloud: Cloud, topic: str, *, allowed: bool
) -> None:
    role = cloud.text(RELAY, "Role", attribute="Arn")
    assert may_publish(cloud, topic, role, rights(cloud, RELAY)) is allowed


def test_s2_no_consumer_publishes_by_itself(cloud: Cloud, consumer: ConsumerProps) -> None:
    role = cloud.text(consumer, "Role", attribute="Arn")
    for topic in ("Events", "Ingress"):
        assert not may_publish(cloud, topic, role, rights(cloud, consumer))


@pytest.mark.parametrize("arn", ["arn:aws:iam::1:user/producer", "arn:aws:iam::1:root"])
def test_s2_a_principal_with_every_right_publishes_to_ingress_and_no_events(
    cloud: Cloud, arn: str
) -> None:
    assert may_publish(cloud, "Ingress", arn, ADMINISTRATOR)
    assert not may_publish(cloud, "Events", arn, ADMINISTRATOR)
