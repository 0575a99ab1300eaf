"""Dead letters of the largest messages: the reason has to fit beside the body."""

import gzip
import json
import random
import string
from base64 import b64encode
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from once.errors import PermanentError
from once.intake.original_message import OriginalMessage
from once.names import DeadLetter, Limits
from once.testing import FakeAws
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.support import Note, consumer_of, facts, invoke, note, record, redriven

CONSUMER = consumer_of()
RANDOM = random.Random(7)
ASCII = string.printable[:95]
TWO_BYTES = "".join(map(chr, range(0x80, 0x800)))
CJK = "".join(map(chr, range(0x4E00, 0x9FA5)))
WIDE = "".join(map(chr, range(0x20000, 0x2A6D6)))
BODIES = {"ASCII": ASCII, "CJK": CJK, "wide": WIDE, "mixed": ASCII * 200 + CJK + WIDE}
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


def attribute(value: str) -> dict[str, Any]:
    return {"stringValue": value, "dataType": "String"}


def size_of(letter: dict[str, Any]) -> int:
    """Return the size of a message as SQS counts it: body, and attributes with names and types."""
    return len(letter["Body"].encode()) + sum(
        len(name.encode())
        + len(value["DataType"])
        + len(value.get("BinaryValue") or value["StringValue"].encode())
        for name, value in letter["MessageAttributes"].items()
    )


def quarantined(aws: FakeAws, body: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Let a message be quarantined; return the dead letter, which is within SQS's limits."""
    assert invoke(aws, CONSUMER, record(body, "m-1", messageAttributes=attributes)) == []
    [letter] = aws.dead_letters()
    assert size_of(letter) <= Limits.MESSAGE_BYTES
    assert len(letter["MessageAttributes"]) <= 10
    return letter


def original(letter: dict[str, Any]) -> dict[str, Any]:
    content = letter["MessageAttributes"][DeadLetter.ORIGINAL_GZIP]
    assert content["DataType"] == "Binary"
    found: dict[str, Any] = json.loads(gzip.decompress(content["BinaryValue"]))
    return found


@pytest.mark.parametrize("with_attributes", [False, True])
@pytest.mark.parametrize("alphabet", BODIES.values(), ids=BODIES)
def test_the_largest_message_is_kept_byte_for_byte(
    start: Start, alphabet: str, *, with_attributes: bool
) -> None:
    attributes = {f"a{i}": attribute("é" * 500) for i in range(10)} if with_attributes else {}
    taken = sum(len(n) + len("String") + 1000 for n in attributes)
    body = body_of(alphabet, Limits.MESSAGE_BYTES - taken)
    letter = quarantined(start(), body, attributes)
    assert letter["Body"] == "The message is in the attribute once-original-gzip"
    assert original(letter) == {"body": body, "attributes": attributes}
    assert facts(letter)["reason"] == "too-large"


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
    letter = quarantined(start(), "{", attributes)
    assert original(letter) == {"body": "{", "attributes": attributes}
    assert facts(letter)["reason"] == "unparseable"


def test_a_message_that_fits_is_sent_unchanged(start: Start) -> None:
    body = body_of(ASCII, Limits.MESSAGE_BYTES - 2000)
    letter = quarantined(start(), body, {})
    assert letter["Body"] == body
    assert DeadLetter.ORIGINAL_GZIP not in letter["MessageAttributes"]


def test_a_compressed_message_that_sqs_sends_back_is_kept_for_the_operator(start: Start) -> None:
    aws = start()
    body = body_of(ASCII, Limits.MESSAGE_BYTES)
    letter = quarantined(aws, body, {"tenant": attribute("t")})
    for _ in range(2):
        letter = quarantined(aws, letter["Body"], redriven(letter))
    assert original(letter) == {"body": body, "attributes": {"tenant": attribute("t")}}
    assert facts(letter)["reason"] == "unparseable"
    assert "dlq redrive" in facts(letter)["error"]


def test_attributes_that_do_not_fit_when_compressed_are_left_out(start: Start) -> None:
    attributes = {"a": {"binaryValue": INCOMPRESSIBLE, "dataType": "Binary"}}
    letter = quarantined(start(), "{", attributes)
    assert letter["Body"] == "{"
    assert facts(letter)["left-out"] == "attributes"
    assert facts(letter)["reason"] == "unparseable"
    carried = {DeadLetter.ATTRIBUTES, DeadLetter.ORIGINAL_GZIP}
    assert carried.isdisjoint(letter["MessageAttributes"])


def test_the_densest_text_fits_beside_the_longest_facts(start: Start) -> None:
    aws, body = start(), dense()
    attributes: dict[str, Any] = {}
    for _ in range(2):  # the second time as SQS sends it back, with longer facts
        attributes |= {DeadLetter.LINEAGE: attribute(",".join(["m" * 120] * 50))}
        letter = quarantined(aws, body, attributes)
        body, attributes = letter["Body"], redriven(letter)
        assert len(facts(letter)["lineage"]) > 2000
        assert DeadLetter.LEFT_OUT not in letter["MessageAttributes"]
    assert len(original(letter)["body"].encode()) == Limits.MESSAGE_BYTES


def test_the_facts_of_a_letter_have_a_limit(start: Start) -> None:
    # The room that is kept free beside a compressed original.
    def refuse(event: Note, tx: Transaction) -> None:
        raise PermanentError("\U0001f600" * 5000)

    consumer = consumer_of(refuse)
    stays = attribute(",".join(["m" * 120] * 500))
    forged = dict.fromkeys((DeadLetter.LINEAGE, DeadLetter.FIRST_SEEN, "once-more"), stays)
    aws = start(consumer)
    longest = note(event_id="\x01" * 2000)  # SQS refuses each character, so that it takes three
    group, number = "g" * 128, 10**39 - 1
    message = record(
        json.dumps(longest), "m-1", messageAttributes=forged, group=group, number=number
    )
    assert invoke(aws, consumer, message) == []
    [letter] = aws.dead_letters()
    assert 12_000 < size_of(letter) - len(letter["Body"]) <= 14 * 1024
