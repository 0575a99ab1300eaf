"""Cause: an event names the record that published it, and the next record keeps that name."""

import json
from typing import Any

import pytest

from once.commit.dedup_record import record_put
from once.events.outgoing import draft, written
from once.names import Record
from once.transaction import Identity, Transaction
from tests.once.support import SETTINGS, event_of

PK = "notes#event#/s#e"


def cause_of(source: str, extensions: dict[str, Any]) -> Any:
    """The cause in the record of an event."""
    tx = Transaction(
        event_of(source=source, extensions=extensions),
        Identity("notes#e", "f"),
        tables={},
        publishes=(),
        read=lambda table, key: None,
    )
    tx.commit_id = "c"
    return record_put(tx, SETTINGS, 0)["Put"]["Item"].get(Record.CAUSE)


def test_the_event_of_a_consumer_names_its_record_and_the_next_record_keeps_it() -> None:
    [event] = json.loads(
        written([draft("noted", {}, None)], inbound=event_of(), pk=PK, consumer="notes", now=0)
    )
    assert cause_of(event["source"], {"oncecause": event["oncecause"]}) == {"S": PK}


@pytest.mark.parametrize(
    ("source", "extensions"),
    [("/shop", {"oncecause": PK}), ("/once/notes", {}), ("/once/notes", {"oncecause": 7})],
    ids=["a producer's", "none", "no text"],
)
def test_the_record_of_any_other_event_has_no_cause(
    source: str, extensions: dict[str, Any]
) -> None:
    assert cause_of(source, extensions) is None
