"""The relay publishes as a record's own consumer what that one declares, and nothing else."""

from typing import Any

import pytest

from once.events.dedup_key import key_hash
from once.events.outgoing import OutgoingEvent
from tests.once.outbox.relaying import Station, change, image, outgoing
from tests.once.support import facts

OWN = outgoing(0)


@pytest.fixture
def station() -> Station:
    return Station()


FORGED: dict[str, tuple[OutgoingEvent, str]] = {
    "a type of another consumer": (
        outgoing(1, event_type="payment.captured"),
        "notes may not publish payment.captured: add the type to publishes= of its declaration",
    ),
    "another consumer's name": (
        outgoing(1, source="/once/payments"),
        "its source is '/once/payments' and not '/once/notes'",
    ),
    "a producer's name": (outgoing(1, source="/shop"), "its source is '/shop' and not"),
    "the id of another record": (outgoing(1, pk="notes#f"), "its id is not derived from the key"),
    "the id of another place": (outgoing(0), "its id is not derived from the key of its record"),
    "an id of its own": (outgoing(1, event_id="7"), "its id is not derived from the key"),
}


@pytest.mark.parametrize(("forged", "rule"), FORGED.values(), ids=FORGED)
def test_s1_a_forged_event_is_dead_lettered_and_its_neighbour_is_published(
    station: Station, forged: OutgoingEvent, rule: str
) -> None:
    answer = station.handle(change(image(OWN, forged)))
    assert answer == {"published": {"counted": 1}, "dead_lettered": [key_hash("notes#e")]}
    assert station.heard() == [OWN.body]
    [letter] = station.dead_letters()
    assert letter["Body"] == forged.body
    found = facts(letter)
    assert (found["reason"], found["consumer"]) == ("unpublishable", "notes")
    assert rule in found["error"]


@pytest.mark.parametrize(
    ("pk", "consumer"),
    [
        ("payments#e", "payments"),
        ("notes_archive#e", "notes_archive"),
        ("\x01#e", "\ufffd"),
        ("#e", "unknown"),
    ],
)
def test_s1_a_record_of_a_consumer_that_declares_nothing_publishes_nothing(
    station: Station, pk: str, consumer: str
) -> None:
    forged = outgoing(0, pk=pk)
    station.handle(change(image(forged, pk=pk)))
    assert station.heard() == []
    [letter] = station.dead_letters()
    assert letter["Body"] == forged.body
    assert facts(letter)["consumer"] == consumer  # SQS takes neither an empty text nor controls


def test_the_answer_counts_what_was_published_by_type(station: Station) -> None:
    records: list[Any] = [change(image(OWN, outgoing(1))), change(image(outbox={"S": "no JSON"}))]
    answer = station.handle(*records)
    assert answer == {"published": {"counted": 2}, "dead_lettered": [key_hash("notes#e")]}
