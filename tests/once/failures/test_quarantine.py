"""Dead letters: each carries its reason, the message and its history, within SQS's size."""

import gzip
import json
import random
import re
import string
from base64 import b64encode
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import ANY

import pytest

from once.errors import EffectUnknown, PermanentError
from once.failures.quarantine import batches_by_size, carried, described, key_of, key_text
from once.failures.quarantine import text as text_attribute
from once.intake.original_message import MOVED, OriginalMessage
from once.names import OUTCOME_BYTES, DeadLetterAttribute, Limits, Reason
from once.testing import FakeAws
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import Note, consumer_of, facts, invoke, note, record, redriven

CONSUMER = consumer_of()
NAMES = {"reason", "error", "consumer", "first-seen", "receive-count", "lineage"}
FIRST_SEEN = "2023-11-14T22:13:20.000+00:00"
NOT_ALLOWED = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
INVALID_DATA = note(amount="many")  # type: ignore[arg-type]


def attribute(value: str) -> dict[str, Any]:
    """A message attribute in Lambda's form."""
    return {"stringValue": value, "dataType": "String"}


def quarantined(aws: FakeAws, body: Any, message_id: str = "m-1", **more: Any) -> dict[str, Any]:
    """Let a message be quarantined; return the dead letter, which is within SQS's limits."""
    message = record(body if isinstance(body, str) else json.dumps(body), message_id, **more)
    assert invoke(aws, CONSUMER, message) == []
    [dead_letter] = aws.dead_letters()
    assert size_of(dead_letter) <= Limits.MESSAGE_BYTES
    assert len(dead_letter["MessageAttributes"]) <= 10
    return dead_letter


@pytest.mark.parametrize(
    ("reason", "body"),
    [
        (Reason.UNPARSEABLE, "{"),
        (Reason.TOO_LARGE, '"' + "x" * 300_000 + '"'),
        (Reason.INVALID_EVENT, {**note(), "specversion": "2"}),
        (Reason.NO_KEY, {**note(), "id": None}),
        (Reason.UNKNOWN_TYPE, {**note(), "type": "unheard"}),
        (Reason.INVALID_DATA, INVALID_DATA),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_dead_letter_explains_itself(start: Start, reason: Reason, body: Any) -> None:
    dead_letter = quarantined(start(), body, receive_count=3)
    found = facts(dead_letter)
    assert set(found) == NAMES | ({"key"} if reason is Reason.INVALID_DATA else set())
    assert found["reason"] == reason
    assert found["consumer"] == "notes"
    assert found["receive-count"] == "3"
    assert found["lineage"] == "m-1"
    assert found["first-seen"] == FIRST_SEEN
    assert re.match(r"[A-Z][A-Za-z]+: \w", found["error"])
    assert dead_letter["Body"] == (body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize(
    ("event_id", "text"),
    [
        ("e", "notes#event#/test#e"),
        ("é #%00", "notes#event#/test#é %23%2500"),
        ("\x00\x1f\ufffe\t", "notes#event#/test#%00%1F%EF%BF%BE\t"),
        ("\x01" * 2000, "notes#event#/test#" + "%01" * 2000),
    ],
    ids=["plain", "escaped", "refused by SQS", "the longest"],
)
def test_a_dead_letter_names_its_dedup_key(start: Start, event_id: str, text: str) -> None:
    aws = start()
    aws.deliver(note(event_id=event_id))
    aws.deliver(note(amount=9, event_id=event_id), fails=True)
    [dead_letter] = aws.dead_letters()
    assert facts(dead_letter)["key"] == text
    [record_] = aws.items("dedup")
    assert key_of(text) == record_["pk"]


ORIGINALS = {"traceparent": attribute("00-1"), "tenant": attribute("é{}\"'")}
LISTS: dict[str, Any] = {"stringListValues": [], "binaryListValues": []}


def test_the_attributes_of_the_message_are_kept_in_one(start: Start) -> None:
    # A message has ten attributes at most, and the facts need most of them.
    originals = {f"attribute-{i}": attribute("é{}\"'") for i in range(10)}
    sent = {name: value | LISTS for name, value in originals.items()}
    dead_letter = quarantined(start(), INVALID_DATA, messageAttributes=sent)
    assert len(dead_letter["MessageAttributes"]) <= 10
    assert json.loads(facts(dead_letter)["attributes"]) == originals


def test_redrives_keep_attributes_and_first_seen_and_extend_the_lineage(start: Start) -> None:
    aws = start()
    dead_letter = quarantined(aws, "{", "m-1", messageAttributes=ORIGINALS, receive_count=4)
    later = {
        "ApproximateReceiveCount": "1",
        "ApproximateFirstReceiveTimestamp": "1800000000000",
        "SentTimestamp": "1800000000000",
    }
    for message_id in ("m-2", "m-3"):
        more = {"messageAttributes": redriven(dead_letter), "attributes": later}
        dead_letter = quarantined(aws, {**note(), "id": None}, message_id, **more)
    found = facts(dead_letter)
    assert found["lineage"] == "m-1,m-2,m-3"
    assert found["first-seen"] == FIRST_SEEN
    assert (found["reason"], found["receive-count"]) == ("no-key", "1")
    assert json.loads(found["attributes"]) == ORIGINALS


def test_a_dead_letter_of_a_fifo_queue_is_a_group_of_its_own_and_keeps_its_place(
    start: Start,
) -> None:
    # Later dead letters of a shared group could not be received while a command holds earlier ones.
    aws = start()
    dead_letter = quarantined(aws, "{", "m-1", group="account-7", number=40)
    assert dead_letter["Attributes"]["MessageGroupId"] == "m-1"
    assert facts(dead_letter)["group"] == "account-7 40"
    again = {"messageAttributes": redriven(dead_letter), "number": 90}
    for group, place in {
        "account-7": "account-7 40",  # sent back by `once dlq redrive`
        "m-1": "account-7 40",  # by SQS's own redrive, in the group of the dead letter
        "account-8": "account-8 90",  # as a producer's: the place is forged
    }.items():
        dead_letter = quarantined(aws, "{", "m-2", group=group, **again)
        assert dead_letter["Attributes"]["MessageGroupId"] == "m-2"
        assert facts(dead_letter)["group"] == place
    forged = {
        DeadLetterAttribute.GROUP: attribute("account-7 40"),
        DeadLetterAttribute.LINEAGE: attribute("m-1,m-2"),
    }
    dead_letter = quarantined(aws, "{", "m-3", group="m-2", messageAttributes=forged, number=91)
    assert facts(dead_letter)["group"] == "account-7 40"


@pytest.mark.parametrize(
    ("earlier", "first_seen"),
    [
        ("2020-01-01T00:00:00+00:00", "2020-01-01T00:00:00.000+00:00"),
        ("2023-11-14T23:00:00+02:00", "2023-11-14T21:00:00.000+00:00"),
        ("2019-12-31T23:59:59+00:00", FIRST_SEEN),
        ("2030-01-01T00:00:00+00:00", FIRST_SEEN),
        ("2021-01-01T00:00:00", FIRST_SEEN),
        ("yesterday", FIRST_SEEN),
    ],
)
def test_an_earlier_first_receipt_counts_if_it_is_a_plausible_time(
    start: Start, earlier: str, first_seen: str
) -> None:
    attributes = {DeadLetterAttribute.FIRST_SEEN: attribute(earlier)}
    dead_letter = quarantined(start(), "{", messageAttributes=attributes)
    assert facts(dead_letter)["first-seen"] == first_seen


def test_a_lineage_has_the_last_twenty_ids(start: Start) -> None:
    ids = [*(f"m{number}" for number in range(24)), "z"]
    attributes = {DeadLetterAttribute.LINEAGE: attribute(",".join(ids))}
    dead_letter = quarantined(start(), "{", "m-1", messageAttributes=attributes)
    assert facts(dead_letter)["lineage"].split(",") == [*ids[-19:], "m-1"]


def test_a_key_with_half_of_a_character_has_a_text() -> None:
    assert key_text("notes#\ud800") == "notes#%3F"


@pytest.mark.parametrize("forged", ["a", "a -1", "a 1 2", "a " + "1" * 40, "é 1"])
def test_a_place_that_no_quarantine_has_written_does_not_count(start: Start, forged: str) -> None:
    attributes = {
        DeadLetterAttribute.GROUP: attribute(forged),
        DeadLetterAttribute.LINEAGE: attribute("a"),
    }
    dead_letter = quarantined(
        start(), "{", "m-1", group="a", number=2, messageAttributes=attributes
    )
    assert facts(dead_letter)["group"] == "a 2"


def test_a_dead_letter_of_a_fair_queue_keeps_its_group(start: Start) -> None:
    more = record("{", "m-1", group="tenant-7")["attributes"]
    dead_letter = quarantined(start(), "{", "m-1", attributes=more)
    assert dead_letter["Attributes"]["MessageGroupId"] == "tenant-7"
    assert DeadLetterAttribute.GROUP not in dead_letter["MessageAttributes"]


@pytest.mark.parametrize(
    "message",
    [
        "\x00\x01\x1f\x7f",
        "\ud800",
        "\ufffe\uffff",
        "x" * 5000,
        "😀" * 1500,
    ],
    ids=["control", "surrogate", "no characters", "long", "wide"],
)
def test_the_text_of_any_error_is_within_the_limits_of_sqs(start: Start, message: str) -> None:
    def raising(event: Note, tx: Transaction) -> None:
        raise PermanentError(message)

    consumer = consumer_of(raising)
    aws = start(consumer)
    assert invoke(aws, consumer, record(json.dumps(note()), "m-1")) == []
    [dead_letter] = aws.dead_letters()
    error = facts(dead_letter)["error"]
    assert error.startswith("PermanentError: ")
    assert len(error) <= 1000
    assert NOT_ALLOWED.search(error) is None


def test_a_character_that_sqs_does_not_accept_is_replaced() -> None:
    assert described(PermanentError("a\x00b\uffffc\n")) == "PermanentError: a\ufffdb\ufffdc\n"


def test_a_record_without_message_attributes_is_quarantined(start: Start) -> None:
    aws, message = start(), record("{", "m-1")
    del message["messageAttributes"]
    assert invoke(aws, CONSUMER, message) == []
    [dead_letter] = aws.dead_letters()
    assert facts(dead_letter)["lineage"] == "m-1"


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_is_sent_unchanged_up_to_the_last_byte_that_sqs_accepts(more: int) -> None:
    fact = {"reason": text_attribute("é")}
    size = Limits.MESSAGE_BYTES - len("reason" + "String") - len("é".encode())
    original = OriginalMessage("x" * (size + more), {})
    body, attributes = carried(original, fact)
    assert (body, attributes) == ((original.body, fact) if not more else (MOVED, ANY))


def test_what_is_left_out_is_said() -> None:
    whole = OriginalMessage("", {}, packed=b"x" * Limits.MESSAGE_BYTES)
    said = {DeadLetterAttribute.LEFT_OUT: text_attribute("original")}
    assert carried(whole, {}) == (MOVED, said)
    # Its attributes fit, and would leave no room for the facts of another quarantine.
    attributes = {"a": {"binaryValue": INCOMPRESSIBLE[: -52 * 1024], "dataType": "Binary"}}
    packed = len(OriginalMessage("body", attributes).compressed())
    assert Limits.MESSAGE_BYTES - 13 * 1024 < packed < Limits.MESSAGE_BYTES - 1024
    said = {DeadLetterAttribute.LEFT_OUT: text_attribute("attributes")}
    assert carried(OriginalMessage("body", attributes), {}) == ("body", said)
    moved, found = carried(OriginalMessage("a\x00b", attributes), {})
    assert moved == MOVED
    alone = found.pop(DeadLetterAttribute.ORIGINAL_GZIP)["BinaryValue"]
    assert json.loads(gzip.decompress(alone)) == {"body": "a\x00b", "attributes": {}}
    assert found == said


@pytest.mark.parametrize("body", ["a\x00b", "\ud800", ""], ids=["control", "surrogate", "empty"])
def test_a_body_that_sqs_does_not_accept_is_compressed(body: str) -> None:
    moved, attributes = carried(OriginalMessage(body, {}), {})
    assert moved == MOVED
    assert set(attributes) == {DeadLetterAttribute.ORIGINAL_GZIP}


# Dead letters of the largest messages: the reason has to fit beside the body.


RANDOM = random.Random(7)
ASCII = string.printable[:95]
TWO_BYTES = "".join(map(chr, range(0x80, 0x800)))
CJK = "".join(map(chr, range(0x4E00, 0x9FA5)))
WIDE = "".join(map(chr, range(0x20000, 0x2A6D6)))
INCOMPRESSIBLE = b64encode(RANDOM.randbytes(Limits.MESSAGE_BYTES - 100)).decode()


def cut_to(size: int, text: str) -> str:
    """Return a text of this many bytes."""
    room = text.encode()[:size].decode(errors="ignore")
    return room + "x" * (size - len(room.encode()))


def body_of(alphabet: str, size: int) -> str:
    """Return random text of this many bytes, the hardest to compress."""
    return cut_to(size, "".join(RANDOM.choices(alphabet, k=size // len(alphabet[-1].encode()))))


def dense() -> str:
    """Return text with nearly equal frequencies of all bytes, some of which JSON escapes."""
    alphabets = (ASCII + "\t\n\r", TWO_BYTES, CJK, WIDE)
    kinds = RANDOM.choices(alphabets, (75, 20, 4, 1), k=Limits.MESSAGE_BYTES)
    return cut_to(Limits.MESSAGE_BYTES, "".join(map(RANDOM.choice, kinds)))


def size_of(dead_letter: dict[str, Any]) -> int:
    """Return the size of a message as SQS counts it: body, and attributes with names and types."""
    return len(dead_letter["Body"].encode()) + sum(
        len(name.encode())
        + len(value["DataType"])
        + len(value.get("BinaryValue") or value["StringValue"].encode())
        for name, value in dead_letter["MessageAttributes"].items()
    )


def original(dead_letter: dict[str, Any]) -> dict[str, Any]:
    content = dead_letter["MessageAttributes"][DeadLetterAttribute.ORIGINAL_GZIP]
    assert content["DataType"] == "Binary"
    found: dict[str, Any] = json.loads(gzip.decompress(content["BinaryValue"]))
    return found


@pytest.mark.parametrize(("alphabet", "number"), [(ASCII, 0), (ASCII * 200 + CJK + WIDE, 10)])
def test_the_largest_message_is_kept_byte_for_byte(
    start: Start, alphabet: str, number: int
) -> None:
    attributes = {f"a{i}": attribute("é" * 500) for i in range(number)}
    taken = sum(len(n) + len("String") + 1000 for n in attributes)
    body = body_of(alphabet, Limits.MESSAGE_BYTES - taken)
    dead_letter = quarantined(start(), body, messageAttributes=attributes)
    assert dead_letter["Body"] == "The message is in the attribute once-original-gzip"
    assert original(dead_letter) == {"body": body, "attributes": attributes}
    assert facts(dead_letter)["reason"] == "too-large"


@pytest.mark.parametrize("alphabet", ["ab", '"\\'])
def test_compression_takes_less_than_a_second(
    seconds: Callable[[float], AbstractContextManager[None]], alphabet: str
) -> None:
    # At the highest level of compression such a text takes seconds, and the function times out.
    text = body_of(alphabet, Limits.MESSAGE_BYTES)
    with seconds(1):
        OriginalMessage(text, {}).compressed()


def test_attributes_that_are_too_large_are_compressed(start: Start) -> None:
    attributes = {"a": attribute(body_of(ASCII, Limits.MESSAGE_BYTES - 100))}
    dead_letter = quarantined(start(), "{", messageAttributes=attributes)
    assert original(dead_letter) == {"body": "{", "attributes": attributes}
    assert facts(dead_letter)["reason"] == "unparseable"


def test_a_compressed_message_that_sqs_sends_back_is_kept_for_the_operator(start: Start) -> None:
    aws = start()
    body = body_of(ASCII, Limits.MESSAGE_BYTES)
    dead_letter = quarantined(aws, body, messageAttributes={"tenant": attribute("t")})
    for _ in range(2):
        dead_letter = quarantined(aws, dead_letter["Body"], messageAttributes=redriven(dead_letter))
    assert original(dead_letter) == {"body": body, "attributes": {"tenant": attribute("t")}}
    assert facts(dead_letter)["reason"] == "unparseable"
    assert "dlq redrive" in facts(dead_letter)["error"]


def test_the_densest_text_fits_beside_the_longest_facts(start: Start) -> None:
    aws, body = start(), dense()
    attributes: dict[str, Any] = {}
    for _ in range(2):  # the second time as SQS sends it back, with longer facts
        attributes |= {DeadLetterAttribute.LINEAGE: attribute(",".join(["m" * 120] * 50))}
        dead_letter = quarantined(aws, body, messageAttributes=attributes)
        body, attributes = dead_letter["Body"], redriven(dead_letter)
        assert len(facts(dead_letter)["lineage"]) > 2000
        assert DeadLetterAttribute.LEFT_OUT not in dead_letter["MessageAttributes"]
    assert len(original(dead_letter)["body"].encode()) == Limits.MESSAGE_BYTES


def test_the_facts_of_a_dead_letter_have_a_limit(start: Start) -> None:
    # The room that is kept free beside a compressed original.
    def refuse(event: Note, tx: Transaction) -> None:
        raise EffectUnknown("\U0001f600" * 5000, outcome="x" * OUTCOME_BYTES)

    consumer = consumer_of(refuse)
    stays = attribute(",".join(["m" * 120] * 500))
    forged = dict.fromkeys(
        (DeadLetterAttribute.LINEAGE, DeadLetterAttribute.FIRST_SEEN, "once-more"), stays
    )
    aws = start(consumer)
    longest = note(event_id="\x01" * 2000)  # SQS refuses each character, so that it takes three
    group, number = "g" * 128, 10**39 - 1
    message = record(
        json.dumps(longest), "m-1", messageAttributes=forged, group=group, number=number
    )
    assert invoke(aws, consumer, message) == []
    [dead_letter] = aws.dead_letters()
    assert 44_000 < size_of(dead_letter) - len(dead_letter["Body"]) <= 46 * 1024
    # Two more, `once-original-gzip` and `once-left-out`, may have to be among SQS's ten.
    assert len(dead_letter["MessageAttributes"]) == 8


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([], []),
        ([100, 1], [[100], [1]]),
        ([60, 40, 1], [[60, 40], [1]]),
        ([60, 60, 40], [[60], [60, 40]]),
        ([1, 1, 1, 1], [[1, 1, 1], [1]]),
        ([1, 200, 1], [[1], [200], [1]]),
    ],
)
def test_a_batch_is_full_by_its_number_or_by_its_bytes(
    sizes: list[int], batches: list[list[int]]
) -> None:
    assert list(batches_by_size(sizes, int, most=3, most_bytes=100)) == batches
