"""The synthesized policies, evaluated for single requests (S1, S2), and the ingress topic's key."""

import pytest

from once.cdk.props import ConsumerProps
from once.names import RELAY
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import STATE, Cloud, Json, flat, listed, statements
from tests.stacks.full_service import ACCOUNT, TEST, Stacks
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


# The key and the policy of the ingress topic let its publishers in alone.


SNS = "sns.<AWS::Region>.<AWS::URLSuffix>"
OWN_ACCOUNT = "<AWS::AccountId>"
OWN = {"StringEquals": {"kms:ViaService": SNS, "kms:CallerAccount": OWN_ACCOUNT}}


def allowed(policy: Json) -> dict[str, Json]:
    """Return the conditions of the permissions with an id, as text that names no account."""
    return {
        statement["Sid"]: {
            operator: {name: unnamed(value) for name, value in keys.items()}
            for operator, keys in statement.get("Condition", {}).items()
        }
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow" and "Sid" in statement
    }


def unnamed(value: object) -> str:
    text = flat(value).replace(TEST.account, OWN_ACCOUNT)
    return text.replace(TEST.region, "<AWS::Region>")


def of_publishers(stacks: Stacks, kind: str, part: str) -> Json:
    """Return a part of the stage that lets S3, EventBridge and another account publish."""
    every = stacks.every(kind, "test").items()
    found: Json
    [found] = [each for name, each in every if name.startswith(part)]
    return found


def test_the_key_rotates(stacks: Stacks) -> None:
    assert of_publishers(stacks, "AWS::KMS::Key", "IngressKey")["EnableKeyRotation"] is True


def test_by_default_principals_of_this_account_alone_use_the_key_and_publish(cloud: Cloud) -> None:
    for topic in ("Ingress", "Events"):
        # The key of AWS. In an account that never used it, it has no ARN yet.
        assert cloud.of(topic)["KmsMasterKeyId"] == "alias/aws/sns"
        assert allowed(cloud.of(topic, "Policy")["PolicyDocument"]) == {}


def test_each_publisher_uses_the_key_through_the_topics_only(stacks: Stacks) -> None:
    policy = of_publishers(stacks, "AWS::KMS::Key", "IngressKey")["KeyPolicy"]
    topics = "arn:aws:sns:<AWS::Region>:<AWS::AccountId>:*"
    context = {"StringLike": {"kms:EncryptionContext:aws:sns:topicArn": topics}}
    assert allowed(policy) == {
        "ThisAccount": OWN,
        "ServiceS3": {**context, "StringEquals": {"aws:SourceAccount": OWN_ACCOUNT}},
        "ServiceEvents": context,
        f"Account{ACCOUNT}": {"StringEquals": {"kms:ViaService": SNS}},
    }
    for statement in policy["Statement"]:
        if "Sid" in statement:
            assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]


def test_each_publisher_publishes_to_the_ingress_topic_and_to_no_other(stacks: Stacks) -> None:
    policy = of_publishers(stacks, "AWS::SNS::TopicPolicy", "IngressPolicy")["PolicyDocument"]
    assert allowed(policy) == {
        "ServiceS3": {"StringEquals": {"aws:SourceAccount": OWN_ACCOUNT}},
        "ServiceEvents": {},  # AWS documents that EventBridge cannot meet a condition
        f"Account{ACCOUNT}": {},
    }
    given = [s for s in policy["Statement"] if "Sid" in s and s["Effect"] == "Allow"]
    assert {s["Action"] for s in given} == {"sns:Publish"}
    principals = [flat(one) for s in given for one in listed(next(iter(s["Principal"].values())))]
    other = f"arn:aws:iam::{ACCOUNT}:root"
    assert principals == ["s3.amazonaws.com", "events.amazonaws.com", other]
    events = of_publishers(stacks, "AWS::SNS::TopicPolicy", "EventsPolicy")["PolicyDocument"]
    assert allowed(events) == {}
