"""Who may do what: the synthesized policies, judged request by request."""

import pytest

from once.cdk.props import ConsumerProps
from once.schema import RELAY
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, flat, statements
from tests.stacks.policies import Request, allows

IN_TRANSACTION = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
ADMINISTRATOR: list[Json] = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
WRITES = ("PutItem", "UpdateItem", "DeleteItem")


def table(cloud: Cloud, name: str) -> str:
    return f"<{cloud.logical_id(f'once-state/{name}')}.Arn>"


def rights(cloud: Cloud, owner: ConsumerProps | str) -> list[Json]:
    """A role's statements, their resources as text."""
    found = []
    for statement in statements(cloud, owner):
        resources = statement["Resource"]
        listed = resources if isinstance(resources, list) else [resources]
        found.append(statement | {"Resource": [cloud.resolved(each) for each in listed]})
    return found


def may_write(cloud: Cloud, consumer: ConsumerProps, action: str, *keys: str) -> bool:
    """Whether it may do so to dedup records with these keys, in a transaction."""
    context = {**IN_TRANSACTION, "dynamodb:LeadingKeys": [*keys]}
    request = Request(f"dynamodb:{action}", table(cloud, "dedup-records"), context)
    return allows(request, rights(cloud, consumer))


def test_s1_a_consumer_puts_its_own_record_in_a_transaction(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    assert may_write(cloud, consumer, "PutItem", f"{consumer.name}#event#/shop#e-1")


@pytest.mark.parametrize("action", WRITES)
def test_s1_a_consumer_changes_no_record_of_another(
    cloud: Cloud, consumer: ConsumerProps, action: str
) -> None:
    others = [line.name for line in CONSUMERS if line is not consumer]
    for other in (*others, f"{consumer.name}_archive", consumer.name.upper(), ""):
        assert not may_write(cloud, consumer, action, f"{other}#event#/shop#e-1")


def test_s1_one_foreign_key_among_own_ones_is_enough_to_be_refused(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    assert not may_write(cloud, consumer, "PutItem", f"{consumer.name}#a", "others#a")


def test_s1_a_request_that_does_not_name_its_key_is_refused(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    dedup = table(cloud, "dedup-records")
    for action in ("PutItem", "GetItem", "BatchGetItem"):
        request = Request(f"dynamodb:{action}", dedup, IN_TRANSACTION)
        assert not allows(request, rights(cloud, consumer))


@pytest.mark.parametrize("enclosing", [None, "BatchWriteItem", "PutItem"])
def test_s1_a_consumer_puts_no_record_outside_a_transaction(
    cloud: Cloud, consumer: ConsumerProps, enclosing: str | None
) -> None:
    context = {"dynamodb:LeadingKeys": [f"{consumer.name}#a"]}
    if enclosing:
        context["dynamodb:EnclosingOperation"] = [enclosing]
    request = Request("dynamodb:PutItem", table(cloud, "dedup-records"), context)
    assert not allows(request, rights(cloud, consumer))


def test_s1_a_consumer_deletes_no_record_and_only_the_ledger_updates_one(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    own = f"{consumer.name}#event#/shop#e-1"
    assert not may_write(cloud, consumer, "DeleteItem", own)
    assert may_write(cloud, consumer, "UpdateItem", own) is consumer.has_effects
    assert not may_write(cloud, consumer, "ConditionCheckItem", own)


@pytest.mark.parametrize("action", ["GetItem", "BatchGetItem"])
def test_s1_a_consumer_reads_its_own_records_only(
    cloud: Cloud, consumer: ConsumerProps, action: str
) -> None:
    def may_read(*keys: str) -> bool:
        context = {"dynamodb:LeadingKeys": [*keys]}
        request = Request(f"dynamodb:{action}", table(cloud, "dedup-records"), context)
        return allows(request, rights(cloud, consumer))

    assert may_read(f"{consumer.name}#a", f"{consumer.name}#b")
    assert not may_read(f"{consumer.name}#a", "others#b")


@pytest.mark.parametrize("action", ["Scan", "Query", "BatchWriteItem", "DeleteTable"])
def test_s1_a_consumer_has_no_other_right_on_the_records(
    cloud: Cloud, consumer: ConsumerProps, action: str
) -> None:
    assert not may_write(cloud, consumer, action, f"{consumer.name}#a")


def test_a_consumer_writes_its_own_tables_in_transactions_only(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    for line in CONSUMERS:
        for each in line.tables:
            request = Request("dynamodb:UpdateItem", table(cloud, each.name), IN_TRANSACTION)
            assert allows(request, rights(cloud, consumer)) is (each in consumer.tables)
            plain = Request("dynamodb:UpdateItem", table(cloud, each.name))
            assert not allows(plain, rights(cloud, consumer))


def may_publish(cloud: Cloud, topic: str, arn: str, identity: list[Json]) -> bool:
    logical_id = cloud.logical_id(f"once-service/{topic}")
    policy = cloud.properties(f"once-service/{topic}/Policy")["PolicyDocument"]["Statement"]
    resolved = [_texts(statement) for statement in policy]
    context = {"aws:PrincipalArn": [arn], "aws:SecureTransport": ["true"]}
    return allows(Request("sns:Publish", f"<{logical_id}>", context), identity, resolved)


def _texts(statement: Json) -> Json:
    condition = {
        operator: {
            key: [flat(v) for v in (values if isinstance(values, list) else [values])]
            for key, values in keys.items()
        }
        for operator, keys in statement["Condition"].items()
    }
    return statement | {"Resource": flat(statement["Resource"]), "Condition": condition}


def role(cloud: Cloud, owner: ConsumerProps | str) -> str:
    return flat(cloud.arn(owner, "Role"))


def test_s2_the_relay_publishes_events_and_nothing_to_ingress(cloud: Cloud) -> None:
    identity = rights(cloud, RELAY)
    assert may_publish(cloud, "Events", role(cloud, RELAY), identity)
    assert not may_publish(cloud, "Ingress", role(cloud, RELAY), identity)


def test_s2_no_consumer_publishes_by_itself(cloud: Cloud, consumer: ConsumerProps) -> None:
    for topic in ("Events", "Ingress"):
        assert not may_publish(cloud, topic, role(cloud, consumer), rights(cloud, consumer))


@pytest.mark.parametrize("arn", ["arn:aws:iam::1:user/producer", "arn:aws:iam::1:root"])
def test_s2_a_principal_with_every_right_publishes_to_ingress_and_no_events(
    cloud: Cloud, arn: str
) -> None:
    assert may_publish(cloud, "Ingress", arn, ADMINISTRATOR)
    assert not may_publish(cloud, "Events", arn, ADMINISTRATOR)
