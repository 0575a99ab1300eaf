"""Writes and conditions as data: the expressions that DynamoDB gets, and what it makes of them."""

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr, Key

from once import absent, present
from once.commit.result import COMMITTED, CommitOutcome
from once.errors import InvalidWrite
from tests.once.support import COUNTERS, Bench, SoldOut, offline

ITEM = {"name": "a", "count": 5, "address": {"city": "Ulm", "zip": "89073"}, "items": ["x"]}
"""Its attributes are among the words that DynamoDB reserves."""

CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "set": ({"set": {"count": 7, "date": "today"}}, {"count": 7, "date": "today"}),
    "set of a nested attribute": (
        {"set": {"address.city": "Bern"}},
        {"address": {"city": "Bern", "zip": "89073"}},
    ),
    "set of a member of a list": ({"set": {"items[0]": "y"}}, {"items": ["y"]}),
    "set of a member, as a tuple": ({"set": {("items", 0): "y"}}, {"items": ["y"]}),
    "set of a name with a dot and a dash": (
        {"set": {("price.eur-net",): 3}},
        {"price.eur-net": 3},
    ),
    "if_not_exists of a missing attribute": ({"if_not_exists": {"size": 1}}, {"size": 1}),
    "if_not_exists of a present one": ({"if_not_exists": {"count": 9}}, {}),
    "append": ({"append": {"items": ["y", "z"]}}, {"items": ["x", "y", "z"]}),
    "append to a missing list": ({"append": {"history": [{"at": 1}]}}, {"history": [{"at": 1}]}),
    "add to a number": ({"add": {"count": -2}}, {"count": 3}),
    "add to a missing number": ({"add": {"total": Decimal("1.5")}}, {"total": Decimal("1.5")}),
    "add to a set": ({"add": {"labels": {"new"}}}, {"labels": {"new"}}),
    "remove": ({"remove": ("count",)}, {"count": None}),
    "all together": (
        {
            "set": {"status": "paid"},
            "if_not_exists": {"date": "today"},
            "append": {"items": ["y"]},
            "add": {"count": 1},
            "remove": ("address.zip",),
        },
        {
            "status": "paid",
            "date": "today",
            "items": ["x", "y"],
            "count": 6,
            "address": {"city": "Ulm"},
        },
    ),
}


@pytest.mark.parametrize(("changes", "after"), CHANGES.values(), ids=CHANGES)
def test_an_update_of_data_changes_exactly_these_attributes(
    bench: Bench, changes: dict[str, Any], after: dict[str, Any]
) -> None:
    bench.aws.given("counters", ITEM)
    tx = bench.transaction()
    tx.update(COUNTERS, {"name": "a"}, **changes)
    assert bench.commit(tx) == [COMMITTED]
    expected = {name: value for name, value in (ITEM | after).items() if value is not None}
    assert bench.aws.items("counters") == [expected]


CONDITIONS: dict[str, tuple[Any, bool]] = {
    "present": (present, True),
    "absent": (absent, False),
    "gte": (Attr("count").gte(5), True),
    "eq of a key": (Key("name").eq("a"), True),
    "nested": (Attr("address.city").eq("Ulm"), True),
    "and": (Attr("count").between(1, 5) & Attr("items").contains("x"), True),
    "or": (Attr("count").lt(5) | Attr("status").exists(), False),
    "in": (Attr("count").is_in([4, 5]), True),
    "text": ("attribute_exists(address)", True),
}


@pytest.mark.parametrize(
    ("write", "condition", "holds"),
    [
        *(("put", *each) for each in CONDITIONS.values()),
        *((write, *CONDITIONS["gte"]) for write in ("update", "delete", "check")),
        *((write, *CONDITIONS["absent"]) for write in ("update", "delete", "check")),
    ],
)
def test_a_condition_decides_whether_the_transaction_commits(
    bench: Bench, write: str, condition: Any, *, holds: bool
) -> None:
    bench.aws.given("counters", ITEM)
    tx, changes = bench.transaction(), {"set": {"count": 1}} if write == "update" else {}
    getattr(tx, write)(
        COUNTERS, {"name": "a"}, condition=condition, otherwise=SoldOut("no"), **changes
    )
    [result] = bench.commit(tx)
    assert (result == COMMITTED) is holds
    assert holds or result.outcome is CommitOutcome.REFUSED


@pytest.mark.parametrize(
    "terms",
    [
        {"add": {"count": -5}, "condition": "#c >= :n"},
        {"expression": "SET #c = #c - :n", "condition": Attr("count").gte(5)},
    ],
    ids=["a text condition beside changes", "a condition of boto3 beside a text"],
)
def test_a_text_has_values_and_names_of_its_own(bench: Bench, terms: dict[str, Any]) -> None:
    bench.aws.given("counters", ITEM)
    tx = bench.transaction()
    tx.update(COUNTERS, {"name": "a"}, names={"#c": "count"}, values={":n": 5}, **terms)
    assert bench.commit(tx) == [COMMITTED]
    assert bench.aws.items("counters") == [ITEM | {"count": 0}]


def test_equal_names_share_a_placeholder() -> None:
    tx = offline()
    tx.update(COUNTERS, {"name": "a"}, set={"a.b": 1, "b.a": 2}, remove=("a.c",))
    [action] = tx.actions().values()
    ab, ba, ac = "#once_0.#once_1", "#once_1.#once_0", "#once_0.#once_2"
    assert action.update == f"SET {ab} = :once_0, {ba} = :once_1 REMOVE {ac}"
    assert action.names == {"#once_0": "a", "#once_1": "b", "#once_2": "c"}


def test_placeholders_of_a_handlers_text_are_not_given_out_again() -> None:
    tx = offline()
    own: Any = {"names": {"#once_1": "count"}, "values": {":once_1": 5}}
    tx.update(COUNTERS, {"name": "a"}, set={"a.b": 1}, condition="#once_1 = :once_1", **own)
    [action] = tx.actions().values()
    assert sorted(action.names.values()) == ["a", "b", "count"]
    assert sorted(action.values.values()) == [1, 5]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "the update changes nothing; give set=, add= or another change"),
    "one attribute twice": (
        {"set": {"count": 1}, "add": {"count": 1}},
        "set= of 'count' and add= of 'count' overlap; merge the two",
    ),
    "a part of another": (
        {"set": {"address": {}}, "remove": ("address.zip",)},
        "set= of 'address' and remove= of 'address.zip' overlap",
    ),
    "a whole with its part": ({"set": {"a[0].b": 1, "a": []}}, "overlap"),
    "the key": ({"set": {"name": "b"}}, "set= of 'name' changes the item's key"),
    "add of text": (
        {"add": {"count": "1"}},
        "add= of 'count' is of the type str; give a number or a set with members, or replace",
    ),
    "add of True": ({"add": {"count": True}}, "is of the type bool; give a number"),
    "add of an empty set": ({"add": {"labels": set()}}, "give a number or a set with members"),
    "append of text": ({"append": {"items": "x"}}, "is of the type str; give a list of members"),
    "a float": ({"set": {"price": 1.5}}, "set= of 'price' is or has a float.*an int, such as mi"),
    "a float inside": ({"append": {"items": [{"price": [1.5]}]}}, "append= of 'items' is or has"),
    "remove as text": ({"remove": "count"}, r"remove= is of the type str; give a tuple, as \('dr"),
    "set as a list": ({"set": ["count"]}, r"set= is of the type list; give a dict, as \{'status'"),
    "an empty name": ({"set": {"": 1}}, "'' names no attribute; give a name, with dots between"),
    "an index alone": ({"set": {"[0]": 1}}, "names no attribute"),
    "a number": ({"set": {1: 1}}, "1 names no attribute"),
    "a text too": ({"expression": "SET a = :a", "set": {"b": 1}}, "has a text and set=; give one"),
    "a condition of another kind": (
        {"set": {"a": 1}, "condition": {"a": 1}},
        r"its condition is of the type dict; give absent, present, a condition of boto3",
    ),
    "a placeholder of boto3": (
        {
            "expression": "SET #n0 = :a",
            "values": {":a": 1},
            "names": {"#n0": "a"},
            "condition": Attr("b").exists(),
        },
        "#n0 is a placeholder of boto3's condition too; rename it",
    ),
}


@pytest.mark.parametrize(("arguments", "error"), WRONG.values(), ids=WRONG)
def test_a_mistake_names_table_attribute_and_remedy(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidWrite, match=f"counters.*{error}"):
        offline().update(COUNTERS, {"name": "a"}, **arguments)
