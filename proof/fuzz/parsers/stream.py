"""Stream: `once.outbox.relay` and `once.events.outgoing`."""

import json
from collections import Counter
from hashlib import sha256
from random import Random
from typing import Any

from once.errors import Unpublishable
from once.events.outgoing import OutgoingEvent, events_in
from once.names import Record
from once.outbox.relay import NotRelayed, Relay
from once.settings import RelaySettings
from proof.fuzz import items, values
from proof.fuzz.aws import LOGGER, DeadLetterQueue, client_error
from proof.fuzz.parsers.intake import CONTEXT
from proof.fuzz.target import expect
from proof.world.clients import NO_METRICS

ERRORS = (Unpublishable,)
SETTINGS = RelaySettings(
    service="shop",
    topic_arn="topic",
    dead_letter_url="dead-letters",
    publishes={"orders": ("order.stored",)},
)
_CODES = ("InternalError", "ThrottledException", "InvalidParameter", "KMSDisabled")


class _Topic:
    """SNS: refuses entries as the generated answers say, and counts the bodies that it accepts."""

    def __init__(self, answers: list[Any]) -> None:
        self.bodies: Counter[str] = Counter()
        self._answers = iter(answers)

    def publish_batch(self, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = next(self._answers, {"refused": []})
        if "error" in answer:
            raise client_error(answer["error"])
        refused = {entry["Id"]: entry for entry in answer["refused"]}
        entries = {entry["Id"]: entry for entry in request["PublishBatchRequestEntries"]}
        accepted = entries.keys() - refused.keys()
        self.bodies.update(entries[entry_id]["Message"] for entry_id in accepted)
        return {
            "Successful": [{"Id": entry_id} for entry_id in accepted],
            "Failed": list(refused.values()),
        }


def check(case: dict[str, Any]) -> None:
    """Relay a batch: each committed event is published, or its record becomes a dead letter."""
    topic: Any = _Topic(case["answers"])
    queue: Any = DeadLetterQueue()
    relay = Relay(
        settings=SETTINGS,
        sns=topic,
        sqs=queue,
        logger=LOGGER,
        metrics=NO_METRICS,
        clock=lambda: 1_800_000_000.0,
        sleep=lambda _: None,
    )
    try:
        relay.handle({"Records": case["records"]}, CONTEXT)
    except NotRelayed:
        expect(bool(case["answers"]), "a topic that accepts everything leaves nothing unpublished")
        return
    _check_published(case, topic.bodies, queue)


def _check_published(case: dict[str, Any], published: Counter[str], queue: DeadLetterQueue) -> None:
    expected: Counter[str] = Counter()
    for record in case["records"]:
        bodies = _to_publish(record)
        if bodies is None:
            dead_lettered = record["eventID"] in queue.letters
            expect(dead_lettered, "an unreadable outbox becomes a dead letter")
        expected.update(bodies or [])
    expect(published <= expected, "only committed events are published")
    if not case["answers"]:
        expect(published == expected, "every committed event is published")
    if published != expected:
        expect(bool(queue.letters), "an unpublished event becomes a dead letter")


def _to_publish(record: dict[str, Any]) -> list[str] | None:
    """Return the bodies that must be published, None if the outbox is unreadable."""
    images = record["dynamodb"]
    new, old = images.get("NewImage", {}), images.get("OldImage", {})
    if record["eventName"] == "REMOVE" or new.get(Record.COMMIT) == old.get(Record.COMMIT):
        return []
    tree = _tree(new)
    try:
        events = events_in(new)
    except ERRORS:
        expect(not _is_outbox(tree), "a readable outbox is read")
        return None
    expect(_is_outbox(tree), "an unreadable outbox is not read")
    bodies = [event.body for event in events]
    expect(json.loads(f"[{','.join(bodies)}]") == tree, "events are published as they are stored")
    pk = images["Keys"][Record.PK]["S"]
    return [event.body for at, event in enumerate(events) if _is_own(event, pk, at)]


def _is_own(event: OutgoingEvent, pk: str, position: int) -> bool:
    event_id = f"{sha256(pk.encode()).hexdigest()}.{position}"
    return (event.type, event.source, event.id) == ("order.stored", "/once/orders", event_id)


def _tree(item: items.Item) -> Any:
    if Record.OUTBOX not in item:
        return []
    try:
        return json.loads(item[Record.OUTBOX]["S"])
    except (KeyError, ValueError, RecursionError):
        return None


def _is_outbox(tree: Any) -> bool:
    return isinstance(tree, list) and all(
        isinstance(event, dict)
        and all(isinstance(event.get(name), str) for name in ("id", "source", "type"))
        for event in tree
    )


def draw(rng: Random) -> dict[str, Any]:
    """Return a batch of the stream, and the answers of the topic."""
    records = [_record(rng, number) for number in range(rng.randint(1, 4))]
    return {"records": records, "answers": [_answer(rng) for _ in range(rng.choice((0, 0, 1, 2)))]}


def _record(rng: Random, number: int) -> dict[str, Any]:
    name = rng.choice(("INSERT", "INSERT", "MODIFY", "REMOVE"))
    pk = f"orders#event#/shop#e-{number}"
    images: dict[str, Any] = {"Keys": {Record.PK: {"S": pk}}}
    if name != "REMOVE":
        images["NewImage"] = _image(rng, pk)
    if name != "INSERT":
        images["OldImage"] = _image(rng, pk)
    return {"eventID": f"s-{number}", "eventName": name, "dynamodb": images}


def _image(rng: Random, pk: str) -> items.Item:
    outbox = {Record.OUTBOX: items.outbox(rng, pk)} if rng.random() < 0.8 else {}
    return items.item(rng) | outbox


def _answer(rng: Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        return {"error": rng.choice(_CODES)}
    fault = {"Code": rng.choice((*_CODES, values.text(rng))), "SenderFault": rng.random() < 0.5}
    ids = [str(rng.randrange(4)) for _ in range(rng.randint(0, 2))]
    return {"refused": [{"Id": entry_id, **rng.choice(({}, fault))} for entry_id in ids]}
