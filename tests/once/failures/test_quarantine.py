"""Dead letters: each says why it is there, what it was, and where it has been."""

import json
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from unittest.mock import ANY

import pytest

from once.errors import PermanentError
from once.failures.quarantine import carried, described
from once.failures.quarantine import text as text_attribute
from once.handlers.transaction import Transaction
from once.intake.original_message import MOVED, OriginalMessage
from once.schema import DeadLetter, Limits, Reason
from once.testing import FakeAws
from tests.in_memory import Start
from tests.once.support import Note, consumer_of, facts, invoke, note, record, redriven

CONSUMER = consumer_of()
SEEN = {"reason", "error", "consumer", "first-seen", "receive-count", "lineage"}
KEYED = SEEN | {"key-hash"}


def text(value: str) -> dict[str, Any]:
    """A message attribute in Lambda's form."""
    return {
        "stringValue": value,
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": "String",
    }


def kept(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes as a letter keeps them: without the lists."""
    parts = ("stringValue", "dataType")
    return {name: {part: value[part] for part in parts} for name, value in attributes.items()}


def quarantined(aws: FakeAws, body: Any, message_id: str = "m-1", **more: Any) -> dict[str, Any]:
    """Let a message be quarantined; return the dead letter."""
    message = record(body if isinstance(body, str) else json.dumps(body), message_id, **more)
    assert invoke(aws, CONSUMER, message) == []
    [letter] = aws.dead_letters()
    return letter


BAD: dict[Reason, tuple[Any, set[str]]] = {
    Reason.UNPARSEABLE: ("{", SEEN),
    Reason.TOO_LARGE: ('"' + "x" * 300_000 + '"', SEEN),
    Reason.INVALID_EVENT: ({**note(), "specversion": "2"}, SEEN),
    Reason.NO_KEY: ({**note(), "id": None}, SEEN),
    Reason.UNKNOWN_TYPE: ({**note(), "type": "unheard"}, SEEN),
    Reason.INVALID_DATA: (note(amount="many"), KEYED),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("reason", BAD)
def test_a_dead_letter_says_all_that_is_known(start: Start, reason: Reason) -> None:
    body, names = BAD[reason]
    letter = quarantined(start(), body, receive_count=3)
    found = facts(letter)
    assert set(found) == names
    assert found["reason"] == reason
    assert found["consumer"] == "notes"
    assert found["receive-count"] == "3"
    assert found["lineage"] == "m-1"
    assert found["first-seen"] == "2023-11-14T22:13:20.000+00:00"
    assert re.match(r"[A-Z][A-Za-z]+: \w", found["error"])
    assert letter["Body"] == (body if isinstance(body, str) else json.dumps(body))


def test_a_key_is_named_by_its_hash(start: Start) -> None:
    aws = start()
    aws.deliver(note(event_id="e"))
    aws.deliver(note(amount=9, event_id="e"))
    [letter] = aws.dead_letters()
    assert facts(letter)["key-hash"] == sha256(b"notes#event#/test#e").hexdigest()


def test_a_message_that_was_just_sent_is_first_seen_now(start: Start) -> None:
    aws = start()
    before = datetime.now(UTC).timestamp()
    aws.deliver("{")
    [letter] = aws.dead_letters()
    seen = datetime.fromisoformat(facts(letter)["first-seen"]).timestamp()
    assert before - 1 <= seen <= datetime.now(UTC).timestamp() + 1


ORIGINALS = {"traceparent": text("00-1"), "tenant": text("é{}\"'")}


def test_the_attributes_of_the_message_are_kept_in_one(start: Start) -> None:
    letter = quarantined(start(), "{", messageAttributes=ORIGINALS)
    assert json.loads(facts(letter)["attributes"]) == kept(ORIGINALS)


@pytest.mark.parametrize("number", [0, 1, 10])
def test_a_dead_letter_never_has_more_attributes_than_sqs_takes(start: Start, number: int) -> None:
    originals = {f"attribute-{i}": text("x") for i in range(number)}
    letter = quarantined(start(), note(amount="x"), messageAttributes=originals)  # type: ignore[arg-type]
    assert len(letter["MessageAttributes"]) <= 10
    assert json.loads(facts(letter).get("attributes", "{}")) == kept(originals)


def test_an_attribute_of_bytes_is_kept(start: Start) -> None:
    originals = {"raw": {"binaryValue": "AAH/", "dataType": "Binary"}}
    letter = quarantined(start(), "{", messageAttributes=originals)
    assert json.loads(facts(letter)["attributes"]) == originals


def test_the_lineage_grows_over_a_redrive_and_first_seen_is_kept(start: Start) -> None:
    aws = start()
    letter = quarantined(aws, "{", "m-1")
    later = {
        "ApproximateReceiveCount": "1",
        "ApproximateFirstReceiveTimestamp": "1800000000000",
        "SentTimestamp": "1800000000000",
    }
    for message_id in ("m-2", "m-3"):
        attributes = redriven(letter)
        letter = quarantined(aws, "{", message_id, messageAttributes=attributes, attributes=later)
    assert facts(letter)["lineage"] == "m-1,m-2,m-3"
    assert facts(letter)["first-seen"] == "2023-11-14T22:13:20.000+00:00"
    assert facts(letter)["receive-count"] == "1"


def test_the_attributes_of_the_message_are_kept_over_redrives(start: Start) -> None:
    aws = start()
    letter = quarantined(aws, "{", "m-1", messageAttributes=ORIGINALS)
    for message_id in ("m-2", "m-3"):
        letter = quarantined(aws, "{", message_id, messageAttributes=redriven(letter))
    assert json.loads(facts(letter)["attributes"]) == kept(ORIGINALS)


def test_what_an_earlier_quarantine_said_is_said_anew(start: Start) -> None:
    aws = start()
    letter = quarantined(aws, "{", "m-1", receive_count=4)
    body = {**note(), "id": None}
    letter = quarantined(aws, body, "m-2", messageAttributes=redriven(letter))
    assert (facts(letter)["reason"], facts(letter)["receive-count"]) == ("no-key", "1")


def test_a_redriven_message_that_is_good_now_is_committed(start: Start) -> None:
    aws = start()
    letter = quarantined(aws, "{", "m-1")
    message = record(json.dumps(note()), "m-2", messageAttributes=redriven(letter))
    assert invoke(aws, CONSUMER, message) == []
    assert aws.dead_letters() == []
    assert len(aws.items("counters")) == 1


@pytest.mark.parametrize(
    "text_of_error",
    [
        "\x00\x01\x1f\x7f",
        "\ud800",
        "\ufffe\uffff",
        "tab\tline\nreturn\r",
        "x" * 5000,
        "😀" * 1500,
        "",
    ],
    ids=["control", "surrogate", "no characters", "white space", "long", "wide", "empty"],
)
def test_whatever_an_error_says_sqs_takes_it(start: Start, text_of_error: str) -> None:
    def raising(event: Note, tx: Transaction) -> None:
        raise PermanentError(text_of_error)

    consumer = consumer_of(raising)
    aws = start(consumer)
    assert invoke(aws, consumer, record(json.dumps(note()), "m-1")) == []
    [letter] = aws.dead_letters()
    error = facts(letter)["error"]
    assert error.startswith("PermanentError: ")
    assert len(error) <= 1000
    assert NOT_ALLOWED.search(error) is None


def test_a_message_of_which_lambda_tells_no_attributes_is_dead_lettered(start: Start) -> None:
    aws, message = start(), record("{", "m-1")
    del message["messageAttributes"]
    assert invoke(aws, CONSUMER, message) == []
    [letter] = aws.dead_letters()
    assert facts(letter)["lineage"] == "m-1"


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_is_carried_as_it_is_up_to_the_last_byte_that_sqs_takes(more: int) -> None:
    fact = {"reason": text_attribute("é")}
    size = Limits.MESSAGE_BYTES - len("reason" + "String") - len("é".encode())
    original = OriginalMessage("x" * (size + more), {})
    body, attributes = carried(original, fact)
    assert (body, attributes) == ((original.body, fact) if not more else (MOVED, ANY))


@pytest.mark.parametrize(
    "original",
    [
        OriginalMessage("a\x00b", {}),
        OriginalMessage("\ud800", {}),
        OriginalMessage("", {}),
    ],
    ids=["a control", "a surrogate", "nothing"],
)
def test_what_sqs_does_not_take_is_carried_compressed(original: OriginalMessage) -> None:
    body, attributes = carried(original, {})
    assert body == MOVED
    assert set(attributes) == {DeadLetter.ORIGINAL_GZIP}


def test_what_sqs_does_not_take_of_an_error_is_replaced_character_by_character() -> None:
    assert described(PermanentError("a\x00b\uffffc\n")) == "PermanentError: a\ufffdb\ufffdc\n"


NOT_ALLOWED = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def test_the_names_of_attributes_are_the_contracts(start: Start) -> None:
    letter = quarantined(start(), note(amount="x"), messageAttributes=ORIGINALS)  # type: ignore[arg-type]
    known = {value for name, value in vars(DeadLetter).items() if name.isupper()}
    assert set(letter["MessageAttributes"]) == known - {
        DeadLetter.ORIGINAL_GZIP,
        DeadLetter.LEFT_OUT,
    }
