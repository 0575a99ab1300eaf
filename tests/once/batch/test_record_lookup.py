"""Record look-up: redelivered messages, and those whose data does not fit, are looked up first."""

import itertools
import json
import time
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from once.consumer import Consumer
from once.effects.declaration import Policy
from once.errors import NotDone
from once.names import Limits
from once.testing import never_sent, refused
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.function import READ, SECOND, WRITE, Function, Make, batch_of, message
from tests.once.effects.provider import SETTINGS, TAKEOVER, Provider, Till, after, start_till
from tests.once.effects.provider import consumer_of as effect_consumer_of
from tests.once.support import Killed, Note, consumer_of, count, facts, invoke, note, record

TEN = [f"n{i}" for i in range(10)]


def test_known_keys_are_one_consistent_read_and_no_handler_runs(function: Function) -> None:
    # DynamoDB rejects a read that names a key twice.
    function.seed(*TEN)
    more = message("n0", message_id="again", **SECOND), message("n1", "n1", amount=5, **SECOND)
    made = function.run(*batch_of(*TEN, **SECOND), *more)
    assert made.operations == [READ]
    assert made.asked == [TEN]
    assert made.dynamodb[0][1]["RequestItems"]["dedup"]["ConsistentRead"] is True
    assert function.handled == []
    assert function.reasons() == ["key-conflict"]
    assert function.amounts == dict.fromkeys(TEN, 1)


def test_only_redelivered_messages_are_looked_up(function: Function) -> None:
    function.seed("known")
    known = [*batch_of("known", "poison", "new", **SECOND), record("{", "bad", **SECOND)]
    made = function.run(*batch_of("a", "b"), *known)
    assert made.asked[0] == ["known", "poison", "new"]
    assert made.groups == [["a", "b", "new"]]
    assert sorted(function.reasons()) == ["permanent", "unparseable"]


@pytest.mark.parametrize(
    ("settings", "batch", "writes"),
    [
        ({}, batch_of(*TEN), 1),
        ({}, batch_of("known", **SECOND), 1),
        ({"group_size": 1}, batch_of("known", "b", **SECOND), 2),
    ],
    ids=["first deliveries", "one message", "groups of one"],
)
def test_messages_that_spoil_no_group_are_not_looked_up(
    make: Make, settings: Any, batch: Any, writes: int
) -> None:
    function = make(**settings)
    function.seed("known")
    assert function.run(*batch).operations == [WRITE] * writes


def test_a_pending_record_is_neither_new_nor_a_duplicate(make: Make) -> None:
    # An earlier version of the consumer had an effect, and was killed while it called it.
    function, before = make(**SETTINGS), effect_consumer_of(Provider(plan=[Killed()]))
    with pytest.raises(Killed):
        invoke(function.aws, before, *batch_of("a"))
    function.run(*batch_of("a", "b", **SECOND), reports=["a"])
    assert function.reasons() == []  # its owner may still be calling it
    function.aws.time = time.time() + TAKEOVER
    function.run(*batch_of("a", "c", **SECOND))
    assert function.reasons() == ["effect-unknown"]
    assert function.handled == ["b", "c"]
    assert function.amounts == {"b": 1, "c": 1}


def test_a_record_that_is_committed_after_the_look_up_makes_a_duplicate(make: Make) -> None:
    def overtaken(event: Note, tx: Transaction) -> None:
        if event.name == "first":
            invoke(notes.aws, consumer_of(), *batch_of("second"))
        count(event, tx)

    notes = make(overtaken)
    notes.run(*batch_of("first", "second", **SECOND))
    assert notes.amounts == {"first": 1, "second": 1}
    assert notes.reasons() == []


def test_one_read_asks_for_as_many_keys_as_dynamodb_takes(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limits, "BATCH_GET_KEYS", 4)
    function.seed(*TEN)
    made = function.run(*batch_of(*TEN, **SECOND))
    assert made.operations == [READ] * 3
    assert made.asked == [TEN[:4], TEN[4:8], TEN[8:]]


def test_a_failed_look_up_fails_no_message(function: Function) -> None:
    function.seed("known")
    made = function.run(*batch_of("known", "a", "b", **SECOND), reads=[never_sent()])
    assert made.groups == [["known", "a", "b"], ["a", "b"]]
    assert function.amounts == {"known": 1, "a": 1, "b": 1}


@pytest.mark.parametrize("receive_count", [1, 2], ids=["first delivery", "looked up"])
def test_an_unreadable_record_fails_its_message_only(
    function: Function, receive_count: int
) -> None:
    # Another program's item under the key, or a record of a later version.
    function.seed("odd")
    [stored] = function.aws.items("dedup")
    function.aws.given("dedup", {"pk": stored["pk"], "state": "unknown"})
    batch = [message("a"), message("odd", receive_count=receive_count), message("b")]
    function.run(*batch, reports=["odd"])
    assert function.amounts == {"odd": 1, "a": 1, "b": 1}


def test_first_deliveries_are_looked_up_if_many_were_duplicates(function: Function) -> None:
    """Duplicates that SQS redelivered say nothing about them."""

    def operations(known: str = "", **more: Any) -> list[str]:
        """Deliver ten messages to the warm function, of which these are duplicates."""
        new = [f"new {next(numbers)}" for _ in range(10 - len(known))]
        return function.run(*batch_of(*known, *new, **more)).operations

    numbers = itertools.count()
    function.seed(*"abcdefghij")
    function.keep_warm()
    for _ in range(5):
        operations("abcdefghij", **SECOND)
    assert operations() == [WRITE]
    assert READ not in operations("abc")
    assert operations("abc")[0] == READ
    operations("abcdefghij")
    assert operations("abcdefghij") == [READ]


# Data that does not fit the model: the dedup record is looked up before the error counts.


INTEGER = json.dumps(note(event_id="e"))
OTHER = INTEGER.replace('"amount": 1', '"amount": "many"')


class Renamed(Struct, frozen=True):
    """A later model, which earlier events do not fit."""

    title: str


@pytest.mark.parametrize("receive_count", [1, 2])
def test_a_record_decides_about_a_message_whose_data_does_not_fit(
    function: Function, receive_count: int
) -> None:
    function.run(record(INTEGER, "m-1"))
    function.run(record(OTHER, "m-2", receive_count=receive_count))
    assert function.reasons() == ["key-conflict"]
    assert function.amounts == {"a": 1}


def test_a_duplicate_from_before_a_change_of_the_model_is_acknowledged(function: Function) -> None:
    changed = Consumer("notes")
    changed.handles("noted", Renamed)(lambda event, tx: None)
    function.run(record(INTEGER, "m-1"))
    assert invoke(function.aws, changed, record(INTEGER, "m-2"), message("new")) == []
    [dead_letter] = function.aws.dead_letters()
    assert facts(dead_letter)["reason"] == "invalid-data"
    assert facts(dead_letter)["lineage"] == "new"


def test_only_a_message_whose_data_does_not_fit_costs_a_look_up(function: Function) -> None:
    assert function.run(record(INTEGER, "m-1")).operations == [WRITE]
    assert function.run(record(OTHER.replace('"e"', '"new"'), "m-2")).operations == [READ]
    assert function.reasons() == ["invalid-data"]
    mixed = function.run(*batch_of("b", "c"), record(OTHER.replace('"e"', '"f"'), "m-3"))
    assert sorted(mixed.operations) == [READ, WRITE]
    assert function.amounts == dict.fromkeys("abc", 1)


def test_while_the_breaker_is_open_invalid_data_is_dead_lettered_at_once(make: Make) -> None:
    function, denied = make(group_size=1), [refused("AccessDeniedException")] * 3
    batch = [*batch_of(*"abcd"), record(OTHER, "invalid")]
    made = function.run(*batch, writes=denied, reports=["a", "b", "c", "d"])
    assert made.groups == [["a"], ["b"], ["c"]]  # then the breaker opens
    assert function.reasons() == ["invalid-data"]


def test_without_an_answer_about_its_record_a_message_is_reported(function: Function) -> None:
    function.run(record(OTHER, "m"), reads=[refused("AccessDeniedException")], reports=["m"])
    function.run(record(OTHER, "m", receive_count=2))
    assert function.reasons() == ["invalid-data"]


def pending(start: Start, provider: Provider, *plan: Any) -> Till:
    """A function with a pending effect, whose calls met this, and a later model."""
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    provider.plan = [*plan]
    till.killed(json.loads(INTEGER))
    assert till.record["state"] == "pending"
    handlers = till.consumer.handlers
    handlers["noted"] = replace(handlers["noted"], model=Renamed)
    till.aws.dead_letters()
    provider.calls.clear()
    return till


def test_an_effect_in_flight_is_waited_for(start: Start, provider: Provider) -> None:
    till = pending(start, provider, after(Killed()))
    with till.delays() as delays:
        assert not till.deliver(json.loads(INTEGER), receive_count=2)
    assert delays == [TAKEOVER]
    assert till.deliver(json.loads(INTEGER), receive_count=5)
    [(reason, error)] = till.dead_letters()
    assert reason == "not-tried"
    assert "is at the effect 'charge' for at most 630 s more, under the provider key" in error
    till.later(TAKEOVER)
    assert till.deliver(json.loads(INTEGER), receive_count=5)
    [(reason, error)] = till.dead_letters()
    assert reason == "effect-unknown"
    assert till.record["provider_key"] in error


@pytest.mark.parametrize(
    ("plan", "reason", "error"),
    [
        (
            [after(TimeoutError())],
            "effect-unknown",
            "its effect 'charge' may have happened under the provider key once-",
        ),
        ([NotDone()] * 3, "invalid-data", "its effect 'charge' was certainly not done"),
    ],
    ids=["unknown", "not done"],
)
def test_an_effect_is_not_called_for_data_that_does_not_fit(
    start: Start, provider: Provider, plan: list[Any], reason: str, error: str
) -> None:
    till = pending(start, provider, *plan)
    assert till.deliver(json.loads(INTEGER), receive_count=2)
    [dead_letter] = till.aws.dead_letters()
    assert facts(dead_letter)["reason"] == reason
    assert "noted does not fit Renamed" in facts(dead_letter)["error"]
    assert error in facts(dead_letter)["error"]
    assert provider.calls == []
