"""Envelopes: the adapters of `once.intake`, each with its own envelope, changed and damaged."""

import json
from contextlib import suppress
from random import Random
from typing import Any
from urllib.parse import quote_plus

from once.errors import NoEvent, OnceError, Unparseable, UntrustedSource
from once.event_sources import S3_TYPES, Source
from once.events.cloud_event import CloudEvent
from once.intake.envelopes import adapter_of
from once.outbox.unrouted import SnsEnvelope
from proof.fuzz import messages, values
from proof.fuzz.json_text import hostile
from proof.fuzz.parsers.bodies import EVENT_ERRORS, MAX_BYTES
from proof.fuzz.reference import meaning, read
from proof.fuzz.target import expect

ERRORS = (*EVENT_ERRORS, UntrustedSource, NoEvent)
SOURCES = {
    "event_bridge": Source.event_bridge("shop", "aws.ec2"),
    "s3": Source.s3("bucket"),
    "sns": Source.sns("arn"),
    "plain sns": Source.sns("arn", type_field="type"),
    "json": Source.json(type_field="type"),
    "schedule": Source.schedule("rate(1 day)"),
}
_ADAPTERS = {name: adapter_of(source) for name, source in SOURCES.items()}
_TEST = {"Service": "Amazon S3", "Event": "s3:TestEvent"}


def draw(rng: Random) -> tuple[str, str]:
    """Return the name of a source and the body of a message of it, in most cases a sound one."""
    name = rng.choice(list(SOURCES))
    tree = _envelope(rng, name)
    return name, json.dumps(tree) if rng.random() < 0.5 else hostile(rng, tree)


def check(case: tuple[str, str]) -> None:
    """Read a body: the result holds what was sent, or is a documented error."""
    name, body = case
    if name.endswith("sns"):
        with suppress(Unparseable):
            expect(SnsEnvelope.read(body).types is None, "a type is an attribute")
    try:
        event = _ADAPTERS[name](body, max_bytes=MAX_BYTES)
    except OnceError as error:
        expect(isinstance(error, ERRORS), "a refusal is a documented error")
        return
    tree = read(body)
    expect(isinstance(tree, dict), "an envelope that is not strict JSON is refused")
    _check_event(name, event, tree)
    again = _ADAPTERS[name](json.dumps(tree, default=_number), max_bytes=2 * MAX_BYTES)
    same = (again.type, meaning(again.data)) == (event.type, meaning(event.data))
    expect(same, "one envelope is one event however it is spelled")


def _check_event(name: str, event: CloudEvent, tree: Any) -> None:
    expect(event.type.strip() != "", "an event has a type")
    match name:
        case "event_bridge":
            sent, data = (tree["source"], tree["detail-type"]), tree["detail"]
            expect((event.source, event.type) == sent, "source and type are those of the envelope")
            expect(event.source in SOURCES[name].sources, "a rule selects its sources")  # type: ignore[attr-defined]
        case "s3":
            _check_object(event, tree)
            return
        case "sns" | "plain sns":
            expect(tree["Type"] == "Notification", "a confirmation is no event")
            inner = read(tree["Message"])
            data = inner if name == "plain sns" else inner.get("data")
        case "json":
            data = tree
        case _:
            expect("<" not in event.id, "a scheduled event has the id of its time")
            data = tree.get("data")
    expect(meaning(event.data) == meaning(data), "the data is what was sent")


def _check_object(event: CloudEvent, tree: Any) -> None:
    [record] = tree["Records"]
    sent = record["s3"]["object"]
    expect(event.subject == event.data["key"] != "", "the subject is the key of the object")
    expect(sent["sequencer"] in event.id, "an event is identified by its sequencer")
    expect(len(event.id) < len(sent["sequencer"] + str(sent.get("versionId"))) + 1030, "its size")
    other = record | {"eventTime": "later", "responseElements": {}}
    again = _ADAPTERS["s3"](json.dumps({"Records": [other]}, default=_number), max_bytes=2**20)
    expect((again.id, again.data) == (event.id, event.data), "a retry of S3 is the same event")


def _number(value: Any) -> Any:
    return int(value) if value == int(value) and abs(value) < 2**53 else float(value)


def _envelope(rng: Random, name: str) -> dict[str, Any]:
    event = messages.event(rng)
    match name:
        case "event_bridge":
            return {
                "id": f"e-{rng.randrange(9)}",
                "detail-type": event["type"],
                "source": rng.choice(("shop", "aws.ec2", "other")),
                "account": "123456789012",
                "time": event.get("time", "2026-01-01T00:00:00Z"),
                "region": "eu-west-1",
                "resources": [],
                "detail": event["data"],
            }
        case "s3":
            return rng.choice((_TEST, *[_stored(rng)] * 9))
        case "sns" | "plain sns":
            content = event if name == "sns" else {**event["data"], "type": event["type"]}
            return {
                "Type": rng.choice(("Notification", "Notification", "SubscriptionConfirmation")),
                "MessageId": "m-1",
                "TopicArn": "arn",
                "Message": hostile(rng, content) if rng.random() < 0.5 else json.dumps(content),
                "Timestamp": "2026-01-01T00:00:00.000Z",
            }
        case "json":
            return {**event["data"], "type": event["type"]}
    time = rng.choice(("2026-01-01T00:00:00Z", "<aws.scheduler.scheduled-time>"))
    return {**event, "id": time, "data": {"scheduled_at": time}}


def _stored(rng: Random) -> dict[str, Any]:
    key = rng.choice((values.text(rng), "a b/c.txt", "%", "é"))
    sent = {
        "key": rng.choice((quote_plus(key, errors="replace"), key)),
        "size": 3,
        "eTag": "e",
        "versionId": rng.choice((None, "v1")),
        "sequencer": rng.choice(("0A", "0A1F", None)),
    }
    record = {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-west-1",
        "eventTime": "2026-01-01T00:00:00.000Z",
        "eventName": f"{rng.choice(S3_TYPES)}:Put",
        "s3": {"bucket": {"name": "b", "arn": "arn:aws:s3:::b"}, "object": sent},
    }
    return {"Records": [record] * rng.choice((1, 1, 1, 2))}
