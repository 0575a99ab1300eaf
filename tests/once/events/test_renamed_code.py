"""What a key is made of: names that were declared, and never those of the code."""

import json
from typing import Any

import pytest

from once.events.dedup_key import Key
from once.handlers.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import Note, amounts, consumer_of, count, invoke, note, record


def before(event: Note, tx: Transaction) -> None:
    count(event, tx)


class Renamed(Note, frozen=True):
    """The data of the same events, in a model that was renamed."""


def after(event: Renamed, tx: Transaction) -> None:
    count(event, tx)


after.__module__ = "functions.moved.elsewhere"


@pytest.mark.parametrize("key", [Key.event(), Key.field("name"), Key.content()])
def test_k4_events_are_known_after_function_model_and_module_are_renamed(
    start: Start, key: Key
) -> None:
    old = consumer_of(before, key=key)
    new = type(old)("notes")
    new.table("counters")
    new.handles("noted", Renamed, key=key)(after)
    aws = start(old)
    message: Any = record(json.dumps(note(event_id="e")), "m-1")
    assert invoke(aws, old, message) == []
    assert invoke(aws, new, message) == []
    assert amounts(aws) == {"a": 1}
    assert aws.dead_letters() == []
