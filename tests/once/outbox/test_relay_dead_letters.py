"""The relay dead-letters events that it cannot or may not publish, and publishes the rest."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once.events.identity import key_hash
from once.events.outgoing import OutgoingEvent
from once.names import Limits
from once.testing import Fault, inject, never_sent, refused
from tests.once.outbox.relaying import RelayHarness, answered, batch_answer, change, image, outgoing
from tests.once.support import facts

SECRET = "S3CRET"
KEY = f"notes#event#/shop#{SECRET}"
OWN, BEFORE, POISON, AFTER = (outgoing(0, pk=pk) for pk in ("notes#e", "notes#b", KEY, "notes#a"))
FACTS = {
    "reason": "unpublishable",
    "consumer": "notes",
    "key": KEY,
    "lineage": "stream-7",
}


def batch(poison: dict[str, Any]) -> list[dict[str, Any]]:
    """A record between two neighbours."""
    neighbours = image(BEFORE, pk="notes#b"), image(AFTER, pk="notes#a")
    return [change(neighbours[0]), change(poison, number=7), change(neighbours[1])]


OUTBOXES: dict[str, Any] = {
    "empty": {"S": ""},
    "no JSON": {"S": f"{SECRET}"},
    "cut off": {"S": f'[{{"id": "{SECRET}'},
    "null": {"S": "null"},
    "no events": {"S": f'["{SECRET}"]'},
    "an event without an id": {"S": f'[{{"source": "/s", "type": "{SECRET}"}}]'},
    "an event without a type": {"S": f'[{{"id": "{SECRET}", "source": "/s"}}]'},
    "an event without a source": {"S": f'[{{"id": "{SECRET}", "type": "t"}}]'},
    "an id that is no text": {"S": f'[{{"id": 1, "source": "{SECRET}", "type": "t"}}]'},
    "nested": {"S": "[" * 100_000},
    "nested in an event": {
        "S": f'[{{"id": "{SECRET}", "source": "/s", "type": "t", "data": {"[" * 100_000}'
    },
    "a lone surrogate": {"S": f'[{{"id": "{SECRET}\ud800", "source": "/s", "type": "t"}}]'},
    "no characters": {"S": f"\x00\ufffe{SECRET}"},
    "a number": {"N": "7"},
    "a list": {"L": [{"S": SECRET}]},
    "null instead of text": {"S": None},
    "without a type": {},
}


@pytest.mark.parametrize("outbox", OUTBOXES.values(), ids=OUTBOXES)
def test_o4_an_outbox_that_cannot_be_read_is_dead_lettered_and_its_neighbours_are_published(
    harness: RelayHarness, outbox: Any
) -> None:
    harness.handle(*batch(image(pk=KEY) | {"outbox": outbox}))
    assert harness.published() == [BEFORE.body, AFTER.body]
    [letter] = harness.dead_letters()
    found = facts(letter)
    assert found.pop("error").startswith("Unpublishable: the record's outbox cannot be read: ")
    assert found == FACTS
    line = harness.logged()[0]
    assert (line["message"], line["reason"]) == ("quarantined", "unpublishable")
    assert (line["error"], line["key_hash"]) == ("Unpublishable", key_hash(KEY))
    assert SECRET not in harness.stream.getvalue()


def test_o4_the_dead_letter_of_an_outbox_has_its_text_if_it_is_text(harness: RelayHarness) -> None:
    records = image(OWN, outgoing(1)), image(outbox={"S": '[{"id": 1}]'}), image(outbox={"N": "7"})
    answer = harness.handle(*map(change, records))
    assert answer == {"published": {"counted": 2}, "dead_lettered": [key_hash("notes#e")] * 2}
    bodies = [letter["Body"] for letter in harness.dead_letters()]
    assert bodies == ['[{"id": 1}]', "the record has no outbox that could be read"]


def test_o4_an_event_over_256_kib_is_dead_lettered_and_its_neighbours_are_published(
    harness: RelayHarness,
) -> None:
    large = outgoing(1, Limits.TOPIC_MESSAGE_BYTES + 1, pk=KEY)
    harness.handle(*batch(image(POISON, large, pk=KEY)))
    assert harness.published() == [BEFORE.body, POISON.body, AFTER.body]
    assert [letter["Body"] for letter in harness.dead_letters()] == [large.body]
    assert SECRET not in harness.stream.getvalue()


@pytest.mark.parametrize(
    ("answers", "published", "dead"),
    [
        ([batch_answer(taken="02", refused="1")], [], [POISON]),
        ([batch_answer(taken="2", throttled="0", refused="1")], [BEFORE], [POISON]),
        (
            [batch_answer(taken="2", throttled="1", refused="0"), batch_answer(refused="0")],
            [],
            [BEFORE, POISON],
        ),
    ],
    ids=["alone", "beside a throttled event", "at two attempts"],
)
def test_o4_an_event_that_the_topic_refuses_is_dead_lettered_and_not_sent_again(
    harness: RelayHarness,
    answers: list[dict[str, Any]],
    published: list[OutgoingEvent],
    dead: list[OutgoingEvent],
) -> None:
    with answered(harness.relay.sns, *answers) as left:
        harness.handle(*batch(image(POISON, pk=KEY)))
    assert left == []
    assert harness.published() == [event.body for event in published]
    letters = harness.dead_letters()
    assert [letter["Body"] for letter in letters] == [event.body for event in dead]
    error = "Unpublishable: the topic refuses counted: InvalidParameter"
    assert facts(letters[-1]) == {**FACTS, "error": error}
    assert harness.logged()[-1]["published"] == 3 - len(dead)
    assert SECRET not in harness.stream.getvalue()


@pytest.mark.parametrize(
    "fault",
    [refused("AccessDenied", status=403), refused("InternalError", status=500), never_sent()],
    ids=["no rights", "server error", "timeout"],
)
@pytest.mark.parametrize(
    "poison",
    [image(outbox={"S": "no JSON"}), image(outgoing(0, 300_000))],
    ids=["unreadable", "refused"],
)
def test_o4_a_dead_letter_that_cannot_be_written_fails_the_batch(
    harness: RelayHarness, poison: dict[str, Any], fault: Fault
) -> None:
    with (
        inject(harness.relay.sqs, "SendMessage", fault) as left,
        pytest.raises((ClientError, ReadTimeoutError)),
    ):
        harness.handle(*batch(poison))
    assert left == []
    assert harness.dead_letters() == []
    assert "quarantined" not in harness.stream.getvalue()
    harness.handle(*batch(poison))
    assert len(harness.dead_letters()) == 1
    assert {BEFORE.body, AFTER.body} <= set(harness.published())


FOREIGN_TYPE = (
    "notes may not publish payment.captured: add the type to publishes= of its declaration in the "
    "CDK app and deploy, or find out who wrote the record"
)
FOREIGN_SOURCE = (
    "its source is {!r} and not '/once/notes', that of the record's consumer: find out who wrote "
    "the record"
)
FOREIGN_ID = "its id is not derived from the key of its record: find out who wrote the record"
FORGED: dict[str, tuple[OutgoingEvent, str]] = {
    "a type of another consumer": (outgoing(1, type="payment.captured"), FOREIGN_TYPE),
    **{
        f"the source {source}": (outgoing(1, source=source), FOREIGN_SOURCE.format(source))
        for source in ("/once/payments", "/shop")
    },
    "the id of another record": (outgoing(1, pk="notes#f"), FOREIGN_ID),
    "the id of another position": (OWN, FOREIGN_ID),
    "an id that is not derived": (outgoing(1, id="7"), FOREIGN_ID),
}


@pytest.mark.parametrize(("forged", "error"), FORGED.values(), ids=FORGED)
def test_s1_a_forged_event_is_dead_lettered_and_its_neighbour_is_published(
    harness: RelayHarness, forged: OutgoingEvent, error: str
) -> None:
    answer = harness.handle(change(image(OWN, forged)))
    assert answer == {"published": {"counted": 1}, "dead_lettered": [key_hash("notes#e")]}
    assert harness.published() == [OWN.body]
    [letter] = harness.dead_letters()
    found = facts(letter)
    assert (letter["Body"], found["reason"]) == (forged.body, "unpublishable")
    assert found["consumer"] == "notes"
    assert found["error"] == f"Unpublishable: {error}"


# SQS takes neither an empty text nor controls, hence the last two names.
@pytest.mark.parametrize(
    ("pk", "consumer"),
    [
        ("payments#e", "payments"),
        ("notes_archive#e", "notes_archive"),
        ("\x01#e", "\ufffd"),
        ("#e", "unknown"),
    ],
)
def test_s1_a_record_of_a_consumer_that_declares_no_types_publishes_nothing(
    harness: RelayHarness, pk: str, consumer: str
) -> None:
    forged = outgoing(0, pk=pk)
    harness.handle(change(image(forged, pk=pk)))
    assert harness.published() == []
    [letter] = harness.dead_letters()
    assert (letter["Body"], facts(letter)["consumer"]) == (forged.body, consumer)
