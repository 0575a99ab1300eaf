"""A consumer with item dedup: its role, and the mistakes that synthesis finds."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_dynamodb as dynamodb

from once.cdk import ConsumerProps, Dedup, IdempotentConsumer, TableProps
from once.cdk.checks.consumer_set import consumer_set_faults
from once.cdk.checks.handlers_in_code import event_types_output, handler_faults, item_dedup_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.operators import _reads
from tests.stacks.cloud import Json, flat, listed, resources_of
from tests.stacks.policies import Request, allows

ARN = "arn:aws:dynamodb:eu-west-1:111122223333:table/"
HANDLER = """
from once import Consumer, Key
consumer = Consumer("tickets")

@consumer.handles("seat.booked", object, key={})
def book(event, tx): ...
"""
WRITES = ("PutItem", "UpdateItem", "DeleteItem")
OWN, OTHERS = "once#tickets#seat.booked", "once#another#seat.booked"


@pytest.fixture
def tickets(tmp_path: Path) -> ConsumerProps:
    folder = tmp_path / "tickets"
    folder.mkdir()
    (folder / "handler.py").write_text(HANDLER.format("Key.field('show', 'seat')"))
    return ConsumerProps(
        "tickets",
        external=("seat.booked",),
        tables=(TableProps("seats", ("show", "seat")),),
        dedup=Dedup.ITEM,
        folder=folder,
    )


def rights(tickets: ConsumerProps, *, local: bool = False) -> list[Json]:
    """The statements of the function's role."""
    stack = cdk.Stack(cdk.App(context={"local": local}), "tickets")
    tables = [dynamodb.Table.from_table_arn(stack, n, ARN + n) for n in ("seats", "dedup")]
    IdempotentConsumer(stack, tickets, dedup_table=tables[1], tables={"seats": tables[0]})
    [role] = resources_of(stack, "AWS::IAM::Role")
    [policy] = role["Policies"]
    return [
        {**s, "Resource": [flat(each) for each in listed(s["Resource"])]}
        for s in policy["PolicyDocument"]["Statement"]
    ]


def writes(
    statements: Sequence[Json], *, table: str = "seats", **context: Sequence[str]
) -> list[str]:
    """The writes of a request with these condition keys that the role allows."""
    keys = {f"dynamodb:{name}": values for name, values in context.items()}
    return [
        action
        for action in WRITES
        if allows(Request(f"dynamodb:{action}", ARN + table, keys), statements)
    ]


TRANSACTION = ("TransactWriteItems",)


def test_a_grouped_consumer_writes_in_transactions_only(tickets: ConsumerProps) -> None:
    statements = rights(tickets)
    assert writes(statements, EnclosingOperation=TRANSACTION) == ["PutItem", "UpdateItem"]
    assert writes(statements, Attributes=("show", "seat", OWN)) == []
    assert writes(statements) == []


def test_a_consumer_without_groups_writes_only_with_its_record(tickets: ConsumerProps) -> None:
    statements = rights(replace(tickets, group_size=1))
    for kept in (OWN, "once#tickets#another type"):
        assert writes(statements, Attributes=("show", kept)) == ["PutItem", "UpdateItem"]
    for attributes in ((), ("show", "seat"), ("show", OTHERS), ("once#tickets",)):
        assert writes(statements, Attributes=attributes) == []
    assert writes(statements) == []


@pytest.mark.parametrize("group_size", [1, 10])
def test_the_dedup_table_is_closed_to_it(tickets: ConsumerProps, group_size: int) -> None:
    statements = rights(replace(tickets, group_size=group_size))
    key = ("tickets#a",)
    assert writes(statements, table="dedup", EnclosingOperation=TRANSACTION, LeadingKeys=key) == []
    for action in ("GetItem", "BatchGetItem"):
        for table, allowed in (("seats", True), ("dedup", False)):
            request = Request(f"dynamodb:{action}", ARN + table, {"dynamodb:LeadingKeys": key})
            assert allows(request, statements) is allowed


def test_the_embedded_aws_has_no_key_for_the_attributes_of_a_write(tickets: ConsumerProps) -> None:
    statements = rights(replace(tickets, group_size=1), local=True)
    assert writes(statements) == ["PutItem", "UpdateItem"]


@pytest.mark.parametrize("key", ["Key.event()", "Key.field('show')", "Key.attribute('seat')"])
def test_a_key_that_is_no_items_is_a_fault(tickets: ConsumerProps, key: str) -> None:
    assert list(handler_faults(tickets)) == []
    assert tickets.folder is not None
    (tickets.folder / "handler.py").write_text(HANDLER.format(key))
    [fault] = handler_faults(tickets)
    assert "'seat.booked' is not that of an item of 'seats'" in fault
    assert "one field for each of show, seat, or dedup=Dedup.RECORD" in fault
    assert list(handler_faults(replace(tickets, dedup=Dedup.RECORD))) == []


def test_effects_events_and_other_tables_are_faults(tickets: ConsumerProps) -> None:
    for more in ({"publishes": ("seat.taken",)}, {"effect_timeout_seconds": 5}):
        [fault] = item_dedup_faults(replace(tickets, **more), {})
        assert "effects, which need a record" in fault
    for tables in ((), (*tickets.tables, TableProps("shows", "show"))):
        [fault] = item_dedup_faults(replace(tickets, tables=tables), {})
        assert f"with {len(tables)} tables; give it one table" in fault


def test_the_outputs_name_the_table_of_the_records(tickets: ConsumerProps) -> None:
    found = json.loads(event_types_output(tickets))
    assert (found["item_table"], found["item_key"]) == ("seats", ["show", "seat"])
    other = replace(tickets, dedup=Dedup.RECORD)
    assert "item_table" not in json.loads(event_types_output(other))


def test_operators_read_the_records_on_items_and_nothing_else_of_them(
    tickets: ConsumerProps,
) -> None:
    stack = cdk.Stack(cdk.App(context={"local": True}), "tickets")
    tables = [dynamodb.Table.from_table_arn(stack, n, ARN + n) for n in ("seats", "dedup")]
    made = IdempotentConsumer(stack, tickets, dedup_table=tables[1], tables={"seats": tables[0]})
    [statement] = [stack.resolve(s.to_json()) for s in _reads([made]) if "Item" in str(s.sid)]
    select = {"dynamodb:Select": ["SPECIFIC_ATTRIBUTES"]}
    for attributes, allowed in (
        (("show", "seat", OWN), True),
        (("show", "seat", OWN, "customer"), False),
    ):
        named = {"dynamodb:Attributes": attributes}
        for context in (named, {**select, **named}):  # AWS does not say which it has
            request = Request("dynamodb:BatchGetItem", ARN + "seats", context)
            assert allows(request, [statement]) is allowed
    whole = {"dynamodb:Select": ["ALL_ATTRIBUTES"]}
    assert not allows(Request("dynamodb:BatchGetItem", ARN + "seats", whole), [statement])


def test_a_table_of_records_is_not_shared_with_consumers_that_could_erase_them(
    tickets: ConsumerProps,
) -> None:
    other = replace(tickets, name="shows", folder=None)
    assert consumer_set_faults([tickets, other], DeploymentConfig()) == []
    [fault] = consumer_set_faults([tickets, replace(other, dedup=Dedup.RECORD)], DeploymentConfig())
    assert "'seats' holds the dedup records of tickets" in fault
    assert "a deletion by shows would erase them" in fault
