"""Update expressions: each is extended to store the commit id."""

from typing import Any

import pytest

from once.commit.result import COMMITTED
from once.names import COMMIT_ATTRIBUTE
from tests.once.support import COUNTERS, Bench, offline

STAMP = "SET #once_commit = :once_commit"


def rendered(kind: str, *args: Any, **terms: Any) -> Any:
    """Render the only action of a transaction, for the commit id "c-1"."""
    tx = offline()
    getattr(tx, kind)(COUNTERS, {"name": "a"}, *args, **terms)
    [action] = tx.actions().values()
    assert action.render("c-1") == action.render("c-1")
    [request] = action.render("c-1").values()
    return request


def stored(bench: Bench) -> Any:
    """Return the only item of the table, with the attribute that `FakeAws.items` leaves out."""
    [item] = bench.client.scan(TableName="counters")["Items"]
    return item


@pytest.mark.parametrize(
    ("expression", "stamped"),
    [
        ("", STAMP),
        ("SET a = :a", f"{STAMP}, a = :a"),
        ("set a = :a", f"{STAMP}, a = :a"),
        ("Set a = :a, b = :b", f"{STAMP}, a = :a, b = :b"),
        ("\n  SET\n  a = :a", f"\n  {STAMP},\n  a = :a"),
        ("ADD a :a", f"{STAMP} ADD a :a"),
        ("REMOVE a", f"{STAMP} REMOVE a"),
        ("DELETE a :a", f"{STAMP} DELETE a :a"),
        ("ADD a :a SET b = :b", f"ADD a :a {STAMP}, b = :b"),
        ("REMOVE a\tSET b = :b ADD c :c", f"REMOVE a\t{STAMP}, b = :b ADD c :c"),
        ("REMOVE #SET", f"{STAMP} REMOVE #SET"),
        ("ADD #set :set", f"{STAMP} ADD #set :set"),
        ("SET #set = :set", f"{STAMP}, #set = :set"),
        ("SET #SET = :SET", f"{STAMP}, #SET = :SET"),
        ("REMOVE #set SET a = :set", f"REMOVE #set {STAMP}, a = :set"),
        ("ADD asset :a", f"{STAMP} ADD asset :a"),
        ("ADD settled :a", f"{STAMP} ADD settled :a"),
        ("ADD set_of_all :a", f"{STAMP} ADD set_of_all :a"),
        ("REMOVE a.set", f"{STAMP} REMOVE a.set"),
        ("REMOVE offset, reset SET asset = :a", f"REMOVE offset, reset {STAMP}, asset = :a"),
        ("SET a = if_not_exists(a, :set) + :set", f"{STAMP}, a = if_not_exists(a, :set) + :set"),
    ],
)
def test_an_expression_stores_the_commit_id_in_its_only_set_clause(
    expression: str, stamped: str
) -> None:
    request = rendered("update", expression, {":a": 1})
    assert request["UpdateExpression"] == stamped
    assert request["ExpressionAttributeNames"]["#once_commit"] == COMMIT_ATTRIBUTE
    assert request["ExpressionAttributeValues"][":once_commit"] == {"S": "c-1"}


@pytest.mark.parametrize(
    ("expression", "values", "names"),
    [
        ("SET amount = :a", {":a": 1}, {}),
        ("set amount = :a REMOVE extra", {":a": 1}, {}),
        ("ADD amount :a", {":a": 1}, {}),
        ("REMOVE extra", {}, {}),
        ("REMOVE extra SET amount = :a", {":a": 1}, {}),
        ("DELETE labels :l", {":l": {"x"}}, {}),
        ("SET #set = :set", {":set": 1}, {"#set": "set"}),
        ("REMOVE #SET", {}, {"#SET": "set"}),
        ("ADD offset_of_set :a", {":a": 1}, {}),
        ("", {}, {}),
    ],
)
def test_dynamodb_accepts_the_extended_expression(
    bench: Bench, expression: str, values: dict[str, Any], names: dict[str, str]
) -> None:
    bench.aws.put("counters", {"name": "a", "amount": 0, "extra": 1, "labels": {"x", "y"}})
    tx = bench.transaction()
    tx.update(COUNTERS, {"name": "a"}, expression, values or None, names=names)
    assert bench.commit(tx) == [COMMITTED]
    assert stored(bench)[COMMIT_ATTRIBUTE] == {"S": tx.commit_id}


def test_an_item_that_is_put_stores_the_commit_id(bench: Bench) -> None:
    tx = bench.transaction()
    tx.put(COUNTERS, {"name": "a", COMMIT_ATTRIBUTE: "of another commit"})
    assert bench.commit(tx) == [COMMITTED]
    assert stored(bench) == {"name": {"S": "a"}, COMMIT_ATTRIBUTE: {"S": tx.commit_id}}


@pytest.mark.parametrize("kind", ["delete", "check"])
def test_an_action_that_writes_no_item_stores_no_commit_id(kind: str) -> None:
    assert "once_commit" not in str(rendered(kind, condition="attribute_exists(amount)"))


def test_the_condition_names_and_values_of_the_handler_are_kept() -> None:
    terms: Any = {"condition": "#n >= :q", "names": {"#n": "number"}}
    request = rendered("update", "SET #n = #n - :q", {":q": 2}, **terms)
    assert request["ConditionExpression"] == "#n >= :q"
    assert request["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    assert request["ExpressionAttributeNames"] == {"#n": "number", "#once_commit": COMMIT_ATTRIBUTE}
    assert request["ExpressionAttributeValues"] == {":q": {"N": "2"}, ":once_commit": {"S": "c-1"}}
    assert terms["names"] == {"#n": "number"}
