"""SQS messages: bodies, and message attributes of producers, of the library, or forged ones.

A message has the form in which Lambda passes it to a function.
"""

import gzip
import json
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from random import Random
from typing import Any

from once.events.claim_check import POINTERS
from once.names import DeadLetterAttribute
from proof.fuzz import texts
from proof.fuzz.texts import hostile, nested, one_in
from proof.report import ROOT

Message = dict[str, Any]
Attribute = dict[str, Any]

NOW = int(time.time())
_REFUSED_BY_SQS = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TYPES = ("order.placed", "stock.reserved", "stock.refused", "payment.captured", "payment.declined")
_SAMPLE: dict[str, Any] = json.loads((ROOT / "events" / "order-placed.json").read_text())
_OPTIONAL: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {}, {"id": " "}, {"subject": "o-1"}, {"delivery": "d-1"}),
    *({"time": "2026-01-01T00:00:00Z"}, {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}),
    *({"datacontenttype": "text/json"}, {"datacontenttype": "text/plain"}),
    *({"data_base64": "e30="}, {"specversion": "0.3"}),
)
_NAMES = ("", "tenant", "once-lineage", "once-first-seen", "once-reason", "a.b")


def event(rng: Random) -> dict[str, Any]:
    """Return a valid event that a consumer of the shop handles."""
    return _SAMPLE | {
        "id": f"e-{rng.randrange(9)}",
        "type": rng.choice(_TYPES),
        "data": _SAMPLE["data"] | {"order_id": f"o-{rng.randrange(9)}", "amount": 900},
    }


def body(rng: Random) -> str:
    """Return the body of a message: an event, which may be changed, damaged or in an envelope.

    One in fifty is a pointer to an object instead, and most of those are nested too deeply.
    """
    pick = rng.randrange(100)
    if pick > 97:
        place: dict[str, Any] = {"s3BucketName": "b", "s3Key": texts.text(rng), "more": {}}
        pointer = [rng.choice(POINTERS), place]
        text = json.dumps(pointer, separators=(",", ":"))
        return hostile(rng, pointer) if one_in(rng, 3) else nested(rng, text)
    text = hostile(rng, event(rng) | rng.choice(_OPTIONAL))
    if pick < 86:
        return text
    return hostile(rng, _envelope(rng, text))


def _envelope(rng: Random, text: str) -> dict[str, Any]:
    """Return an envelope of SNS, EventBridge, S3 or a schedule."""
    time = rng.choice(("2026-01-01T00:00:00Z", "<aws.scheduler.scheduled-time>"))
    match rng.randrange(4):
        case 0:
            kind = rng.choice(("Notification", "Notification", "SubscriptionConfirmation"))
            named = {"Type": kind, "MessageId": "m", "TopicArn": "arn", "Timestamp": time}
            return {**named, "Message": text}
        case 1:
            head = {"id": "m", "source": "shop", "detail-type": "order.placed", "resources": []}
            place = {"account": "1", "time": time, "region": "r"}
            return {**head, **place, "detail": _SAMPLE["data"]}
        case 2:
            key = rng.choice((texts.text(rng), "a+b%2Fc", "%", "é" * 600))
            stored = {"key": key, "size": 3, "eTag": "e", "sequencer": rng.choice(("0A", None))}
            head = {"eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "r"}
            head |= {"eventTime": time, "eventName": "ObjectCreated:Put"}
            record = {**head, "s3": {"bucket": {"name": "b", "arn": "a"}, "object": stored}}
            return {"Records": [record] * rng.choice((1, 1, 2))}
    return {**event(rng), "id": time}


def json_text(rng: Random) -> str:
    """Return a JSON text, which may be damaged."""
    pick = rng.randrange(10)
    if pick == 9:
        return rng.choice(texts.NUMBERS)
    return hostile(rng, texts.value(rng) if pick < 6 else event(rng))


def draw(rng: Random) -> Message:
    """Return a message, every second one with attributes of a producer or of a dead letter."""
    found: dict[str, Attribute] = {}
    if one_in(rng, 2):
        names = {rng.choice(_NAMES), rng.choice(_NAMES)} - {""}
        found = {name: string(texts.text(rng)) for name in sorted(names)}
        pick = rng.randrange(10)
        if pick < 5:
            kept = string(hostile(rng, _tenant(rng)))
            found[DeadLetterAttribute.ATTRIBUTES] = binary(b"{}") if pick == 4 else kept
        if rng.randrange(10) < 4:
            found[DeadLetterAttribute.ORIGINAL_GZIP] = _packed(rng)
    return message(body(rng), found, rng.choice((1, 1, 1, 2, 3, 4)))


def _packed(rng: Random) -> Attribute:
    """Return an original as a quarantine compresses it, or a forgery."""
    original = compressed(hostile(rng, {"body": body(rng), "attributes": _tenant(rng)}))
    return rng.choice((binary(original), binary(original[::-1]), string("x")))


def _tenant(rng: Random) -> dict[str, Any]:
    return {"tenant": string("x") | {"stringValue": texts.text(rng)}}


def message(
    body: str, attributes: Mapping[str, Attribute] | None = None, receives: int = 1
) -> Message:
    """Return a message, without characters that SQS refuses."""
    return {
        "messageId": "m-1",
        "receiptHandle": "handle",
        "body": sendable(body),
        "attributes": {
            "ApproximateReceiveCount": str(receives),
            "ApproximateFirstReceiveTimestamp": "1700000000000",
            "SentTimestamp": str(NOW * 1000),
        },
        "messageAttributes": dict(attributes or {}),
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:queue",
    }


def sendable(text: str) -> str:
    """Return a text that SQS accepts: characters of XML 1.0 only, and at least one."""
    return _REFUSED_BY_SQS.sub("", text) or "x"


def string(text: str) -> Attribute:
    """Return a message attribute of a text."""
    return {"stringValue": sendable(text), "dataType": "String"}


def binary(content: bytes) -> Attribute:
    """Return a message attribute of bytes."""
    return {"binaryValue": b64encode(content).decode(), "dataType": "Binary"}


def compressed(text: str) -> bytes:
    """Return a text as gzip."""
    return gzip.compress(text.encode(errors="surrogatepass"), compresslevel=1, mtime=0)
