"""`once.outbox.stream_relay` and `once.events.outgoing`: records of the table's stream."""

import json
from collections import Counter
from hashlib import sha256
from random import Random
from typing import Any

from once.errors import Unpublishable
from once.events.outgoing import events_in
from once.outbox.stream_relay import NotRelayed, Relay
from once.schema import Record
from once.settings import RelaySettings
from proof.fuzz import fakes, items, nasty
from proof.fuzz.target import Target, claim

LISTED = (Unpublishable,)
SETTINGS = RelaySettings(
    service="shop",
    topic_arn="topic",
    dead_letter_url="dead-letters",
    publishes={"orders": ("order.stored",)},
)
_HEAD = ("id", "source", "type")
_CODES = ("InternalError", "ThrottledException", "InvalidParameter", "KMSDisabled")


class _Topic:
    """SNS: refuses entries as it is told, and remembers what it took."""

    def __init__(self, answers: list[Any]) -> None:
        self.bodies: Counter[str] = Counter()
        self._answers = list(answers)

    def publish_batch(self, **request: Any) -> dict[str, Any]:
        """Take the entries that the next answer does not name."""
        answer = self._answers.pop(0) if self._answers else {"refused": []}
        if "error" in answer:
            raise fakes.refusal(answer["error"])
        entries = request["PublishBatchRequestEntries"]
        refused = {entry["Id"]: entry for entry in answer["refused"]}
        taken = [entry for entry in entries if entry["Id"] not in refused]
        self.bodies.update(entry["Message"] for entry in taken)
        return {"Successful": [{"Id": e["Id"]} for e in taken], "Failed": list(refused.values())}


def check(case: dict[str, Any]) -> None:
    """Relay a batch: every event of a commit is published, or its record is dead-lettered."""
    topic, queues = _Topic(case["answers"]), fakes.Queues()
    try:
        _relay(topic, queues).handle({"Records": case["records"]}, fakes.CONTEXT)
    except NotRelayed:
        claim(bool(case["answers"]), "a topic that takes everything leaves nothing behind")
        return
    expected: Counter[str] = Counter()
    for record in case["records"]:
        found = _outgoing(record)
        if found is None:
            claim(record["eventID"] in queues.letters, "an outbox nobody can read is dead-lettered")
        expected.update(found or [])
    claim(topic.bodies <= expected, "nothing is published that did not commit")
    if not case["answers"]:
        claim(topic.bodies == expected, "every event of a commit is published")
    if topic.bodies != expected:
        claim(bool(queues.letters), "what is not published is dead-lettered")


def _relay(topic: Any, queues: Any) -> Relay:
    return Relay(
        settings=SETTINGS,
        sns=topic,
        sqs=queues,
        logger=fakes.LOGGER,
        metrics=fakes.METRICS,
        clock=lambda: 1_800_000_000.0,
        sleep=lambda _: None,
    )


def _outgoing(record: dict[str, Any]) -> list[str] | None:
    """Return the events that are to be published; None where nobody can read them."""
    images = record["dynamodb"]
    new, old = images.get("NewImage", {}), images.get("OldImage", {})
    if record["eventName"] == "REMOVE" or new.get(Record.COMMIT) == old.get(Record.COMMIT):
        return []
    try:
        events = events_in(new)
    except LISTED:
        events = None
    claim((events is not None) == _is_readable(new), "an outbox is read exactly if it is one")
    if events is None:
        return None
    bodies = [event.body for event in events]
    if bodies:
        claim(json.loads(f"[{','.join(bodies)}]") == _tree(new), "events go out as they are")
    own = _own_heads(images["Keys"][Record.PK]["S"], len(events))
    heads = [(event.type, event.source, event.id) for event in events]
    return [body for body, head, known in zip(bodies, heads, own, strict=True) if head == known]


def _own_heads(pk: str, count: int) -> list[tuple[str, str, str]]:
    """Return the heads that the events of this record may have, in their places."""
    root = sha256(pk.encode()).hexdigest()
    return [("order.stored", "/once/orders", f"{root}.{position}") for position in range(count)]


def _is_readable(item: dict[str, Any]) -> bool:
    if Record.OUTBOX not in item:
        return True
    tree = _tree(item)
    return isinstance(tree, list) and all(
        isinstance(event, dict) and all(isinstance(event.get(name), str) for name in _HEAD)
        for event in tree
    )


def _tree(item: dict[str, Any]) -> Any:
    try:
        return json.loads(item[Record.OUTBOX]["S"])
    except (KeyError, ValueError):
        return None


def draw(rng: Random) -> dict[str, Any]:
    """Return a batch of the stream, and what the topic answers."""
    records = [_record(rng, number) for number in range(rng.randint(1, 4))]
    answers = [_answer(rng) for _ in range(rng.choice((0, 0, 1, 2)))]
    return {"records": records, "answers": answers}


def _record(rng: Random, number: int) -> dict[str, Any]:
    name = rng.choice(("INSERT", "INSERT", "MODIFY", "REMOVE"))
    pk = f"orders#event#/shop#e-{number}"
    images = {}
    if name != "REMOVE":
        images["NewImage"] = _image(rng, pk)
    if name != "INSERT":
        images["OldImage"] = _image(rng, pk)
    keys = {Record.PK: {"S": pk}}
    return {"eventID": f"s-{number}", "eventName": name, "dynamodb": {"Keys": keys, **images}}


def _image(rng: Random, pk: str) -> dict[str, Any]:
    item = items.stored(rng) if rng.random() < 0.9 else items.foreign(rng)
    return item | ({Record.OUTBOX: items.outbox(rng, pk)} if rng.random() < 0.8 else {})


def _answer(rng: Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        return {"error": rng.choice(_CODES)}
    refused = [
        {"Id": str(rng.randrange(4)), **_fault(rng)} for _ in range(rng.randint(0, 2))
    ]  # what SNS says of an entry that it does not take
    return {"refused": refused}


def _fault(rng: Random) -> dict[str, Any]:
    code = rng.choice((*_CODES, nasty.text(rng)))
    return rng.choice(({}, {"Code": code, "SenderFault": rng.random() < 0.5}))


TARGET = Target("stream", share=2, draw=draw, check=check)
