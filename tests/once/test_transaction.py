"""A transaction: its writes, conditions as data, and events; some are refused before a request."""

import re
from datetime import timedelta
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr, Key

from once import absent, present
from once.commit.result import COMMITTED, CommitOutcome
from once.errors import InvalidWrite, OnceError, TooLarge
from once.names import COMMIT_ATTRIBUTE
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    PUBLISHES,
    Bench,
    Note,
    SoldOut,
    calls,
    consumer_of,
    count,
    failures,
    note,
    offline,
)


def error_of(bench: Bench, tx: Transaction, kind: type[OnceError]) -> str:
    """The error of a transaction that must not reach DynamoDB."""
    with calls(bench.client) as made:
        [result] = bench.commit(tx)
    assert made == []
    assert result.outcome is CommitOutcome.FAILED
    assert isinstance(result.cause, kind)
    return str(result.cause)


def putting(bench: Bench, number: int, **values: Any) -> Transaction:
    tx = bench.transaction()
    for i in range(number):
        tx.put(COUNTERS, {"name": f"n{i}", **values})
    return tx


def test_the_record_counts_among_the_hundred_actions(bench: Bench) -> None:
    assert bench.commit(putting(bench, 99)) == [COMMITTED]
    assert len(bench.aws.items("counters")) == 99
    tx = putting(bench, 99)
    tx.get(COUNTERS, {"name": "n0"})
    assert len(tx.actions()) == 99
    tx.get(COUNTERS, {"name": "only read"})
    text = error_of(bench, tx, TooLarge)
    assert "100 actions and the dedup record: DynamoDB takes 100" in text


ACTIONS: dict[str, Any] = {
    "put": lambda tx, key: tx.put(COUNTERS, key),
    "update": lambda tx, key: tx.update(COUNTERS, key, "SET amount = :a", {":a": 1}),
    "delete": lambda tx, key: tx.delete(COUNTERS, key),
    "check": lambda tx, key: tx.check(COUNTERS, key, condition="attribute_exists(amount)"),
    "get": lambda tx, key: tx.get(COUNTERS, key),
}
WRITES = ["put", "update", "delete", "check"]
BAD_KEYS: list[dict[str, Any]] = [{}, {"nmae": "a"}, {"name": ""}, {"name": ["a"]}]
MORE_THAN_THE_KEY = {"name": "a", "more": "b"}
"""To a put, this is an item with its key."""


@pytest.mark.parametrize(("first", "second"), [*permutations(WRITES, 2)])
def test_two_actions_on_one_item_are_refused(first: str, second: str) -> None:
    tx = offline()
    ACTIONS[first](tx, {"name": "a"})
    with pytest.raises(InvalidWrite, match=r"two actions on one item of counters.*merge them"):
        ACTIONS[second](tx, {"name": "a"})


@pytest.mark.parametrize(
    ("action", "key"),
    [
        *((action, key) for action in ACTIONS for key in BAD_KEYS),
        *((action, MORE_THAN_THE_KEY) for action in ACTIONS if action != "put"),
    ],
)
def test_an_action_without_the_tables_key_is_refused(action: str, key: dict[str, Any]) -> None:
    with pytest.raises(InvalidWrite, match="the key of counters is name"):
        ACTIONS[action](offline(), key)


@pytest.mark.parametrize("write", WRITES)
def test_a_float_among_the_values_of_an_expression_is_refused(bench: Bench, write: str) -> None:
    tx = bench.transaction()
    arguments: dict[str, Any] = {"values": {":a": 1.5}, "condition": "amount = :a"}
    if write == "update":
        arguments["expression"] = "SET amount = :a"
    getattr(tx, write)(COUNTERS, {"name": "a"}, **arguments)
    error_of(bench, tx, InvalidWrite)


@pytest.mark.parametrize(
    "value",
    ["", -5, Decimal("19.99"), True, None, b"raw", ["a", 1], {"a": {"b": None}}, {1, 2}],
    ids=repr,
)
def test_a_value_is_stored_as_it_was_at_the_put(bench: Bench, value: Any) -> None:
    tx, item = bench.transaction(), {"name": "a", "amount": value}
    tx.put(COUNTERS, item)
    item["amount"] = "changed later"
    assert bench.commit(tx) == [COMMITTED]
    assert bench.aws.items("counters")[0]["amount"] == value


def test_a_refusal_without_a_condition_is_refused() -> None:
    # Without a condition nothing can ever fail, and the refusal would never be seen.
    with pytest.raises(InvalidWrite, match="otherwise"):
        offline().put(COUNTERS, {"name": "a"}, otherwise=SoldOut())


# Update expressions: each is extended to store the commit id.


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
        ("Set a = :a, b = :b", f"{STAMP}, a = :a, b = :b"),
        ("\n  SET\n  a = :a", f"\n  {STAMP},\n  a = :a"),
        ("REMOVE a", f"{STAMP} REMOVE a"),
        ("REMOVE a\tSET b = :b ADD c :c", f"REMOVE a\t{STAMP}, b = :b ADD c :c"),
        ("ADD #set :set", f"{STAMP} ADD #set :set"),
        ("REMOVE #set SET a = :set", f"REMOVE #set {STAMP}, a = :set"),
        ("REMOVE offset, reset SET asset = :a", f"REMOVE offset, reset {STAMP}, asset = :a"),
    ],
)
def test_an_expression_stores_the_commit_id_in_its_only_set_clause(
    expression: str, stamped: str
) -> None:
    values, names = (re.findall(rf"{mark}\w+", expression) for mark in ":#")
    terms = {"values": dict.fromkeys(values, 1), "names": dict.fromkeys(names, "attribute")}
    request = rendered("update", expression, **terms)
    assert request["UpdateExpression"] == stamped
    assert request["ExpressionAttributeNames"]["#once_commit"] == COMMIT_ATTRIBUTE
    assert request["ExpressionAttributeValues"][":once_commit"] == {"S": "c-1"}


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


# `tx.publish`: an event commits with its cause, or neither does.


COMMITTED_AT = 1_800_000_000.5


def publish(event: Note, tx: Transaction) -> None:
    count(event, tx)
    tx.publish("counted", event, subject=event.name)


def test_an_event_commits_with_its_cause(start: Start) -> None:
    aws = start(consumer_of(publish), publishes=PUBLISHES)
    aws.time = COMMITTED_AT
    assert failures(aws.deliver(note("a", 3))) == []
    [body] = aws.published()
    assert (body["type"], body["subject"]) == ("counted", "a")
    assert body["data"] == {"name": "a", "amount": 3}
    assert body["time"] == "2027-01-15T08:00:00.500+00:00"


def test_events_keep_their_order_and_the_data_that_they_were_published_with() -> None:
    tx, data = offline(), {"number": 0}
    for number in range(3):
        data["number"] = number
        tx.publish("counted", data)
    assert [event.data["number"] for event in tx.drafts] == [0, 1, 2]


def test_a_type_that_the_consumer_does_not_declare_is_refused() -> None:
    with pytest.raises(InvalidWrite, match=r"unheard.*add it to publishes= of the consumer's decl"):
        offline().publish("unheard", {})
    with pytest.raises(InvalidWrite, match=r"counted.*add it to publishes_later= of the consumer"):
        offline().publish("counted", {}, after=timedelta(0))


def test_an_event_that_is_published_later_commits_with_its_cause(start: Start) -> None:
    def remind(event: Note, tx: Transaction) -> None:
        count(event, tx)
        tx.publish("counted", event, after=timedelta(days=3))
        tx.publish("counted", event)

    aws = start(consumer_of(remind), publishes=PUBLISHES, publishes_later=PUBLISHES)
    aws.time = COMMITTED_AT
    assert failures(aws.deliver(note())) == []
    later, now = aws.published()
    assert (later["time"], later["oncedue"]) == ("2027-01-18T08:00:01.000+00:00", now["time"])
    assert "oncedue" not in now


def test_the_answer_to_a_refusal_replaces_the_events_of_the_handler(start: Start) -> None:
    def refuse(event: Note, tx: Transaction) -> None:
        publish(event, tx)
        raise SoldOut

    def answer(event: Note, refusal: SoldOut, tx: Transaction) -> None:
        tx.publish("counted", {"refused": True})

    consumer = consumer_of(refuse)
    consumer.rejects(SoldOut)(answer)
    aws = start(consumer, publishes=PUBLISHES)
    assert failures(aws.deliver(note())) == []
    assert [body["data"] for body in aws.published()] == [{"refused": True}]
    assert aws.items("counters") == []


# Writes and conditions as data: the expressions that DynamoDB gets.


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
    "append of text": ({"append": {"items": "x"}}, "is of the type str; give a list of members"),
    "a float": ({"set": {"price": 1.5}}, "set= of 'price': it is a float.*an int, such as mi"),
    "a float inside": ({"append": {"items": [{"price": [1.5]}]}}, r": \[0\].price\[0\] is a float"),
    "remove as text": ({"remove": "count"}, r"remove= is of the type str; give a tuple, as \('dr"),
    "set as a list": ({"set": ["count"]}, r"set= is of the type list; give a dict, as \{'status'"),
    "an empty name": ({"set": {"": 1}}, "'' names no attribute; give a name, with dots between"),
    "an index alone": ({"set": {"[0]": 1}}, "names no attribute"),
    "a number": ({"set": {1: 1}}, "a int names no attribute"),
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
