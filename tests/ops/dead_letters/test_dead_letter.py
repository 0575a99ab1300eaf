"""Reading a dead letter: the original message, and its dead-letter attributes."""

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from once.failures.quarantine import carried, text
from once.intake.original_message import OriginalMessage
from once.names import RELAY, UNROUTED, DeadLetterAttribute, Limits
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import dead_letter
from once.ops.dead_letters.redrive import redriven_message
from tests.ops.shop import Shop
from tests.ops.support import facts

NOW = datetime(2026, 7, 30, 14, tzinfo=UTC)


def received(
    attributes: Mapping[str, Any], body: str = "{}", suffix: str = "", **system: str
) -> dead_letter.DeadLetter:
    """A dead letter of ReceiveMessage, with these message attributes and system attributes."""
    queue = dead_letter.DeadLetterQueue(
        "orders", f"https://sqs/1/dead{suffix}", f"https://sqs/1/queue{suffix}"
    )
    usual = {"SentTimestamp": "1700000000000", "ApproximateReceiveCount": "7"}
    message: Any = {
        "MessageId": "m-9",
        "ReceiptHandle": "r",
        "Body": body,
        "Attributes": usual | system,
        "MessageAttributes": attributes,
    }
    return dead_letter.DeadLetter.read(queue, message)


def quarantined(original: OriginalMessage) -> dead_letter.DeadLetter:
    body, attributes = carried(original, facts(reason="too-large", lineage="m-1"))
    return received(attributes, body)


def test_time_without_an_offset_is_in_utc() -> None:
    found = received(facts(first_seen="2023-07-30T14:00:00"))
    assert found.first_seen == datetime(2023, 7, 30, 14, tzinfo=UTC)


def test_every_consumer_has_a_dead_letter_queue_and_the_others_come_last(shop: Shop) -> None:
    found = dead_letter.dead_letter_queues(Deployment.find())
    assert [queue.owner for queue in found] == ["inventory", "orders", RELAY, UNROUTED]
    assert found[1] == shop.box
    assert found[-1].source_url is None
    assert dead_letter.dead_letter_queues(Deployment.find(), "orders") == [shop.box]
    assert dead_letter.dead_letter_queues(Deployment.find(), RELAY) == found[-2:-1]
    assert dead_letter.dead_letter_queues(Deployment.find(), UNROUTED) == found[-1:]


def test_compressed_message_is_ignored_if_the_body_is_there() -> None:
    packed = gzip.compress(json.dumps({"body": "no", "attributes": {}}).encode())
    hidden = {"DataType": "Binary", "BinaryValue": packed}
    assert received({DeadLetterAttribute.ORIGINAL_GZIP: hidden}, "{").original.body == "{"


def test_attributes_too_large_as_json_are_redriven_in_the_form_they_were_sent() -> None:
    quotes = '"' * (Limits.MESSAGE_BYTES - 100)
    attributes = {"quotes": {"stringValue": quotes, "dataType": "String"}}
    found = quarantined(OriginalMessage("{", attributes))
    assert found.original.attributes == attributes
    back = redriven_message(found, NOW)
    assert dict(back.attributes) == {"quotes": text(quotes)}
    assert back.size <= Limits.MESSAGE_BYTES


def test_message_names_the_part_that_was_left_out() -> None:
    value = b64encode(Random(7).randbytes(Limits.MESSAGE_BYTES - 100)).decode()
    found = quarantined(OriginalMessage("{", {"a": {"binaryValue": value, "dataType": "Binary"}}))
    assert found.original == OriginalMessage("{", {})
    assert found.left_out == "attributes"
