"""Data that the model does not read: the dedup record decides first whether that matters."""

import json
from typing import Any

import pytest
from msgspec import Struct

from once.consumer import Consumer
from once.errors import NotDone
from once.handlers.effect_declaration import Policy
from once.testing import inject, refused
from tests.in_memory import Start
from tests.once.effects.provider import Killed, Provider, Till, after, start_till
from tests.once.support import (
    amounts,
    calls,
    consumer_of,
    facts,
    invoke,
    note,
    reasons,
    record,
)

CONSUMER = consumer_of()
INTEGER = json.dumps(note(event_id="e"))
FRACTION = INTEGER.replace('"amount": 1', '"amount": 1.0')
OTHER = INTEGER.replace('"amount": 1', '"amount": "many"')


class Renamed(Struct, frozen=True):
    """A model that the events of earlier do not fit."""

    title: str


def operations(made: list[Any]) -> list[str]:
    return [name for name, _ in made]


@pytest.mark.parametrize("receive_count", [1, 2, 5])
def test_a_duplicate_that_the_model_does_not_read_is_acknowledged(
    start: Start, receive_count: int
) -> None:
    aws = start(CONSUMER)
    assert invoke(aws, CONSUMER, record(INTEGER, "m-1")) == []
    again = record(FRACTION, "m-2", receive_count=receive_count)
    assert invoke(aws, CONSUMER, again) == []
    assert aws.dead_letters() == []
    assert amounts(aws) == {"a": 1}


def test_a_duplicate_in_one_batch_is_one_all_the_same(start: Start) -> None:
    aws = start(CONSUMER)
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, CONSUMER, record(INTEGER, "m-1"), record(FRACTION, "m-2")) == []
    assert aws.dead_letters() == []
    assert amounts(aws) == {"a": 1}
    assert operations(made).count("TransactWriteItems") == 1


def test_a_duplicate_of_before_the_model_changed_is_acknowledged(start: Start) -> None:
    aws, changed = start(CONSUMER), Consumer("notes")
    changed.handles("noted", Renamed)(lambda event, tx: None)
    assert invoke(aws, CONSUMER, record(INTEGER, "m-1")) == []
    assert invoke(aws, changed, record(INTEGER, "m-2"), record(json.dumps(note()), "m-3")) == []
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "invalid-data"
    assert facts(letter)["lineage"] == "m-3"


def test_other_content_under_a_known_key_is_a_key_conflict(start: Start) -> None:
    aws = start(CONSUMER)
    invoke(aws, CONSUMER, record(INTEGER, "m-1"))
    assert invoke(aws, CONSUMER, record(OTHER, "m-2")) == []
    assert reasons(aws) == ["key-conflict"]


def test_only_what_cannot_be_read_costs_a_look_at_its_record(start: Start) -> None:
    aws = start(CONSUMER)
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, CONSUMER, record(INTEGER, "m-1")) == []
        assert operations(made) == ["TransactWriteItems"]
        assert invoke(aws, CONSUMER, record(json.dumps(note(amount="x")), "m-2")) == []  # type: ignore[arg-type]
    assert operations(made) == ["TransactWriteItems", "BatchGetItem"]
    assert reasons(aws) == ["invalid-data"]


def test_while_the_breaker_is_open_it_is_dead_lettered_at_once(start: Start) -> None:
    aws = start(CONSUMER, group_size=1, commit_threads=1)
    denied = [refused("AccessDeniedException")] * 3
    batch = [record(json.dumps(note(name)), name) for name in "abcd"]
    with inject(aws.runtime.dynamodb, "TransactWriteItems", *denied):
        failed = invoke(aws, CONSUMER, *batch, record(OTHER, "invalid"))
    assert failed == ["a", "b", "c", "d"]  # the last one was not tried
    assert reasons(aws) == ["invalid-data"]


def test_it_runs_once_beside_neighbours_that_change_items(start: Start) -> None:
    aws = start(CONSUMER)
    batch = [record(json.dumps(note(name)), name) for name in "ab"]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, CONSUMER, *batch, record(OTHER, "invalid")) == []
    assert sorted(operations(made)) == ["BatchGetItem", "TransactWriteItems"]
    assert amounts(aws) == {"a": 1, "b": 1}


def test_without_an_answer_about_its_record_it_comes_again(start: Start) -> None:
    aws = start(CONSUMER)
    with inject(aws.runtime.dynamodb, "BatchGetItem", refused("AccessDeniedException")):
        assert invoke(aws, CONSUMER, record(OTHER, "m-1")) == ["m-1"]
    assert invoke(aws, CONSUMER, record(OTHER, "m-1", receive_count=2)) == []
    assert reasons(aws) == ["invalid-data"]


def retold(event: dict[str, Any]) -> Any:
    """The same event, spelt as a model of whole numbers does not read it."""
    return {**event, "data": {**event["data"], "amount": 1.0}}


def pending(start: Start, provider: Provider, *plan: Any) -> Till:
    """A function whose effect is pending, since its calls met this."""
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    provider.plan = [*plan]
    till.killed(note(event_id="e"))
    assert till.record["state"] == "pending"
    till.aws.dead_letters()
    provider.calls.clear()
    return till


def test_an_effect_that_may_have_happened_is_named_and_not_called(
    start: Start, provider: Provider
) -> None:
    till = pending(start, provider, after(TimeoutError()))
    assert till.deliver(retold(note(event_id="e")), receive_count=2)
    [letter] = till.aws.dead_letters()
    assert facts(letter)["reason"] == "effect-unknown"
    assert "'charge' may have happened, and noted does not fit Note" in facts(letter)["error"]
    assert provider.calls == []


def test_an_effect_that_is_in_flight_is_waited_for(start: Start, provider: Provider) -> None:
    till = pending(start, provider, after(Killed()))
    event = retold(note(event_id="e"))
    assert not till.deliver(event, receive_count=2)
    assert till.deliver(event, receive_count=5)
    assert reasons(till.aws) == ["effect-unknown"]


def test_an_effect_that_certainly_did_not_happen_is_not_begun_again(
    start: Start, provider: Provider
) -> None:
    till = pending(start, provider, *[NotDone()] * 3)
    assert till.deliver(retold(note(event_id="e")), receive_count=2)
    assert reasons(till.aws) == ["invalid-data"]
    assert provider.calls == []


def test_an_effect_whose_outcome_is_written_down_is_a_duplicate(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider)
    assert till.deliver(note(event_id="e"))
    assert till.deliver(retold(note(event_id="e")), receive_count=2)
    assert till.aws.dead_letters() == []
    assert len(provider.calls) == 1
