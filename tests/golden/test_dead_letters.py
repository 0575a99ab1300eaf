"""Dead letters and purged ones of every released version: consumers and tools read them.

Dead letters stay in a queue for 14 days, and files of purged ones for longer.
"""

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from once.errors import PermanentError
from once.names import SCHEMA_VERSION, DeadLetterAttribute
from once.ops.dead_letters.archive import archived_line, read_line
from once.ops.dead_letters.dead_letter import DeadLetter, DeadLetterQueue, lineage_text
from once.ops.dead_letters.redrive import redriven_message
from once.testing import FakeAws
from once.transaction import Transaction
from tests.golden.versions import Item, cases, golden
from tests.in_memory import Start
from tests.once.outbox.relaying import RelayHarness, change, image
from tests.once.support import Note, consumer_of, invoke, note, record, redriven

BOX = DeadLetterQueue("notes", "https://sqs/1/notes-dead-letters", "https://sqs/1/notes")
NOW = datetime(2027, 1, 16, tzinfo=UTC)
SENT = {"ApproximateReceiveCount": "1", "SentTimestamp": "1800000000000"}
PRODUCERS = {
    "tenant": {"stringValue": "é", "dataType": "String"},
    "raw": {"binaryValue": "AAH/", "dataType": "Binary"},
}
PURGED = ("without a key", "with a key", "with attributes", "compressed")
LATER: Item = {"once-of-a-later-version": {"DataType": "String", "StringValue": "x"}}


def refuse(event: Note, tx: Transaction) -> None:
    raise PermanentError("it will never do")


CONSUMER = consumer_of(refuse)
GOOD = json.dumps(note(event_id="e"))
UNSENDABLE = json.dumps(note("\ufffe", event_id="e"), ensure_ascii=False)


@pytest.fixture
def aws(start: Start) -> FakeAws:
    return start(CONSUMER)


def dead_lettered(
    aws: FakeAws,
    body: str,
    attributes: Item | None = None,
    message_id: str = "m-1",
    group: str | None = None,
) -> Item:
    """Return the dead letter that a consumer of today writes."""
    own = attributes or {}
    message = record(body, message_id, receive_count=3, group=group, messageAttributes=own)
    assert invoke(aws, CONSUMER, message) == []
    return only_dead_letter(aws)


def only_dead_letter(source: FakeAws | RelayHarness) -> Item:
    [dead_letter] = source.dead_letters()
    return {name: dead_letter[name] for name in ("Body", "MessageAttributes")}


def put_back(message: Item) -> Item:
    """Return the message that today's tools make of a dead letter."""
    back = redriven_message(as_dead_letter(message), NOW)
    return {"Body": back.body, "MessageAttributes": dict(back.attributes)}


def dead_lettered_again(aws: FakeAws) -> Item:
    back = put_back(dead_lettered(aws, GOOD, PRODUCERS))
    return dead_lettered(aws, GOOD, redriven(back), "m-2")


def dead_lettered_by_the_relay(_: FakeAws) -> Item:
    harness = RelayHarness()
    harness.handle(change(image(outbox={"S": "no JSON"})))
    return only_dead_letter(harness)


MADE: dict[str, Callable[[FakeAws], Item]] = {
    "without a key": lambda aws: dead_lettered(aws, '{"specversion": "1.0"}'),
    "with a key": lambda aws: dead_lettered(aws, GOOD),
    "with attributes": lambda aws: dead_lettered(aws, GOOD, PRODUCERS),
    "compressed": lambda aws: dead_lettered(aws, UNSENDABLE, PRODUCERS),
    "sent back": lambda aws: put_back(dead_lettered(aws, GOOD, PRODUCERS)),
    "compressed, sent back": lambda aws: put_back(dead_lettered(aws, UNSENDABLE)),
    "dead-lettered again": dead_lettered_again,
    "of a message group": lambda aws: dead_lettered(aws, GOOD, group="account-7"),
    "dead-lettered by the relay": dead_lettered_by_the_relay,
}


def as_dead_letter(message: Item) -> DeadLetter:
    """Return a message as the operator's tools receive it."""
    system = {"MessageId": "d-1", "ReceiptHandle": "h", "Attributes": SENT}
    return DeadLetter.read(BOX, {**system, **message})  # type: ignore[typeddict-item]


def message_of(case: Item) -> Item:
    """Return a message of a file, in which bytes are base64."""
    attributes = {
        name: {
            key: b64decode(part) if key == "BinaryValue" else part for key, part in value.items()
        }
        for name, value in case["message"]["MessageAttributes"].items()
    }
    return {"Body": case["message"]["Body"], "MessageAttributes": attributes}


def form(message: Item) -> Item:
    """Return what is in a dead letter: compressed data as it was, an error as its class alone."""
    attributes = {name: dict(value) for name, value in message["MessageAttributes"].items()}
    if packed := attributes.get(DeadLetterAttribute.ORIGINAL_GZIP):
        packed["BinaryValue"] = gzip.decompress(packed["BinaryValue"])
    if error := attributes.get(DeadLetterAttribute.ERROR):
        error["StringValue"] = error["StringValue"].partition(":")[0]
    return {"Body": message["Body"], "MessageAttributes": attributes}


def test_every_kind_of_dead_letter_is_kept() -> None:
    assert set(golden(SCHEMA_VERSION, "letters")) == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_a_dead_letter_has_the_form_of_its_schema_version(aws: FakeAws, name: str) -> None:
    kept = message_of(golden(SCHEMA_VERSION, "letters")[name])
    assert form(MADE[name](aws)) == form(kept)


@pytest.mark.parametrize("more", [{}, LATER], ids=["as it is", "with an unknown attribute"])
@pytest.mark.parametrize(("version", "case"), cases("letters"))
def test_todays_tools_read_the_dead_letters_of_every_version(
    version: int, case: Item, more: Item
) -> None:
    message, read = message_of(case), case["read"]
    message["MessageAttributes"] |= more
    dead_letter = as_dead_letter(message)
    assert (dead_letter.original.body, dead_letter.original.attributes) == (
        read["body"],
        read["attributes"],
    )
    error = read["error"] if read["reason"] else None
    facts = (dead_letter.reason, dead_letter.error, dead_letter.key)
    assert facts == (read["reason"], error, read["key"])
    assert lineage_text(dead_letter.lineage).startswith(read["lineage"])
    if read["first-seen"]:
        assert dead_letter.first_seen == datetime.fromisoformat(read["first-seen"])
    if read["receive-count"]:
        assert dead_letter.receive_count == int(read["receive-count"])


@pytest.mark.parametrize(("version", "case"), cases("letters"))
def test_a_dead_letter_of_any_version_that_sqs_sends_back_keeps_what_its_producer_sent(
    aws: FakeAws, version: int, case: Item
) -> None:
    message, read = message_of(case), case["read"]
    again = dead_lettered(aws, message["Body"], redriven(message), "m-9")
    original = as_dead_letter(again).original
    assert (original.body, original.attributes) == (read["body"], read["attributes"])
    found = {name: value.get("StringValue") for name, value in again["MessageAttributes"].items()}
    assert found[DeadLetterAttribute.LINEAGE] == f"{read['lineage']},m-9"
    first_seen = read["first-seen"] or "2023-11-14T22:13:20.000+00:00"
    assert found[DeadLetterAttribute.FIRST_SEEN] == first_seen


@pytest.mark.parametrize(("version", "case"), cases("letters"))
def test_the_tools_send_back_what_the_producer_of_any_version_sent(
    version: int, case: Item
) -> None:
    message, read = message_of(case), case["read"]
    back = put_back(message)
    assert back["Body"] == read["body"]
    kept = redriven(back).get(DeadLetterAttribute.ATTRIBUTES, {"stringValue": "{}"})
    assert json.loads(kept["stringValue"]) == read["attributes"]


@pytest.mark.parametrize(("version", "case"), cases("purged"))
def test_a_purged_letter_of_any_version_is_imported_as_it_was(version: int, case: Item) -> None:
    exported = read_line(json.dumps(case["line"]).encode())
    message = message_of(golden(version, "letters")[case["letter"]])
    assert exported.entry() == {
        "MessageBody": message["Body"],
        "MessageAttributes": message["MessageAttributes"],
    }
    assert exported.safe_until == datetime(2023, 12, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize("name", PURGED)
def test_a_purged_dead_letter_has_the_form_of_its_schema_version(name: str) -> None:
    case = golden(SCHEMA_VERSION, "purged")[name]
    dead_letter = as_dead_letter(message_of(golden(SCHEMA_VERSION, "letters")[case["letter"]]))
    assert json.loads(archived_line(dead_letter)) == case["line"]
