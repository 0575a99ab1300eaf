"""Data that does not fit the model: the dedup record is looked up before the error counts."""

import json
from typing import Any

import pytest
from msgspec import Struct

from once.consumer import Consumer
from once.effects.declaration import Policy
from once.errors import NotDone
from once.testing import refused
from tests.in_memory import Start
from tests.once.batch.batches import READ, WRITE, batch_of, message
from tests.once.batch.function import Function, Make
from tests.once.effects.provider import TAKEOVER, Killed, Provider, Till, after, start_till
from tests.once.support import facts, invoke, note, record

INTEGER = json.dumps(note(event_id="e"))
FRACTION = INTEGER.replace('"amount": 1', '"amount": 1.0')
OTHER = INTEGER.replace('"amount": 1', '"amount": "many"')


class Renamed(Struct, frozen=True):
    """A later model, which earlier events do not fit."""

    title: str


@pytest.mark.parametrize("receive_count", [1, 2, 5])
@pytest.mark.parametrize(("body", "reasons"), [(FRACTION, []), (OTHER, ["key-conflict"])])
def test_a_record_decides_about_a_message_whose_data_does_not_fit(
    function: Function, body: str, reasons: list[str], receive_count: int
) -> None:
    function.run(record(INTEGER, "m-1"))
    function.run(record(body, "m-2", receive_count=receive_count))
    assert function.reasons() == reasons
    assert function.amounts == {"a": 1}


def test_a_duplicate_in_the_same_batch_is_acknowledged(function: Function) -> None:
    made = function.run(record(INTEGER, "m-1"), record(FRACTION, "m-2"))
    assert function.reasons() == []
    assert function.amounts == {"a": 1}
    assert made.operations.count(WRITE) == 1


def test_a_duplicate_from_before_a_change_of_the_model_is_acknowledged(function: Function) -> None:
    changed = Consumer("notes")
    changed.handles("noted", Renamed)(lambda event, tx: None)
    function.run(record(INTEGER, "m-1"))
    assert invoke(function.aws, changed, record(INTEGER, "m-2"), message("new")) == []
    [letter] = function.aws.dead_letters()
    assert facts(letter)["reason"] == "invalid-data"
    assert facts(letter)["lineage"] == "new"


def test_only_a_message_whose_data_does_not_fit_costs_a_look_up(function: Function) -> None:
    assert function.run(record(INTEGER, "m-1")).operations == [WRITE]
    assert function.run(record(FRACTION.replace('"e"', '"new"'), "m-2")).operations == [READ]
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
    """A function with a pending effect, whose calls met this."""
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    provider.plan = [*plan]
    till.killed(json.loads(INTEGER))
    assert till.record["state"] == "pending"
    till.aws.dead_letters()
    provider.calls.clear()
    return till


def test_an_effect_in_flight_is_waited_for(start: Start, provider: Provider) -> None:
    till = pending(start, provider, after(Killed()))
    with till.delays() as delays:
        assert not till.deliver(json.loads(FRACTION), receive_count=2)
    assert delays == [TAKEOVER]
    assert till.deliver(json.loads(FRACTION), receive_count=5)
    [(reason, error)] = till.dead_letters()
    assert reason == "not-tried"
    assert "is at the effect 'charge' for at most 630 s more, under the provider key" in error
    till.later(TAKEOVER)
    assert till.deliver(json.loads(FRACTION), receive_count=5)
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
    assert till.deliver(json.loads(FRACTION), receive_count=2)
    [letter] = till.aws.dead_letters()
    assert facts(letter)["reason"] == reason
    assert "noted does not fit Note" in facts(letter)["error"]
    assert error in facts(letter)["error"]
    assert provider.calls == []


def test_a_duplicate_of_a_completed_effect_is_acknowledged(till: Till, provider: Provider) -> None:
    assert till.deliver(json.loads(INTEGER))
    assert till.deliver(json.loads(FRACTION), receive_count=2)
    assert till.aws.dead_letters() == []
    assert len(provider.calls) == 1
