"""How version 1 reads: frozen, for what is written today is read by it after a rollback.

Each function takes what version 1's code takes, by its name and of its type, and leaves alone what
that leaves alone. It knows nothing of `once`, or a change there would change it too.
"""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

Item = Mapping[str, Any]

_STANDINGS = ("in-flight", "not-done", "unknown", "settled")
_PACKED = "once-original-gzip"
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_EVENT = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data")


class Unreadable(Exception):
    """Version 1 would fail at this: the message names the attribute."""


def record(item: Item) -> dict[str, Any]:
    """Read a dedup record, in DynamoDB's own JSON form."""
    pending = _attribute(item, "state", "S") == "pending"
    expires = _number(item, "expires_at") if "expires_at" in item or not pending else None
    return {
        "fingerprint": _attribute(item, "fingerprint", "S"),
        "commit": _attribute(item, "commit", "S"),
        "committed_at": _number(item, "committed_at"),
        "expires_at": expires,
        "intent": _intent(item) if pending else None,
    }


def trail(item: Item) -> dict[str, Any]:
    """Read what an operator is told of a dedup record."""
    told = ("event_type", "outcome", "refusal", "effect", "provider_key")
    return {name: _attribute(item, name, "S") for name in told if name in item}


def outbox(item: Item) -> list[dict[str, str]]:
    """Read the events to publish out of a dedup record; the relay sends each body as it is."""
    if "outbox" not in item:
        return []
    return [
        {"id": _member(tree, "id"), "type": _member(tree, "type"), "body": body}
        for tree, body in _bodies(_attribute(item, "outbox", "S"))
        if _member(tree, "source")
    ]


def event(body: str) -> dict[str, Any]:
    """Read an event as a consumer reads it."""
    tree = json.loads(body)
    content = tree.get("datacontenttype", "application/json")
    if (tree["specversion"], content) != ("1.0", "application/json"):
        raise Unreadable("specversion, datacontenttype")
    return {
        **{name: _member(tree, name) for name in ("id", "source", "type")},
        **{name: _member(tree, name) if name in tree else None for name in ("subject", "time")},
        "data": tree.get("data"),
        "extensions": {name: value for name, value in tree.items() if name not in _EVENT},
    }


def relayed(change: Item) -> list[str]:
    """Read a record of the stream as the relay does: the ids of the events that it publishes."""
    images = change["dynamodb"]
    _attribute(images["Keys"], "pk", "S")
    old, new = (_commit(images.get(which, {})) for which in ("OldImage", "NewImage"))
    if change["eventName"] == "REMOVE" or old == new:
        return []
    item = images["NewImage"]
    elsewhere = _attribute(item, "sequenced", "SS") if "sequenced" in item else []
    return [event["id"] for event in outbox(item) if event["type"] not in elsewhere]


def commit_of(item: Item) -> str:
    """Read off a business item which commit wrote it last."""
    return str(_attribute(item, "once_commit", "S"))


def letter(message: Item) -> dict[str, Any]:
    """Read a dead letter, or one that was sent back, as ReceiveMessage hands it out."""
    attributes: Item = message["MessageAttributes"]
    facts = ("reason", "error", "consumer", "key", "first-seen", "receive-count", "lineage")
    found = {name: _text(attributes, f"once-{name}") for name in facts}
    if "once-group" in attributes:  # of a FIFO consumer: message group and place there
        found["group"] = _text(attributes, "once-group")
    return {**found, **_original(message["Body"], attributes)}


def capture(item: Item) -> dict[str, Any]:
    """Read a capture of a webhook; its body as base64."""
    texts = ("pk", "endpoint", "profile", "standing", "verified", "method", "path", "body_sha256")
    numbers = ("received_at", "body_bytes", "expires_at")
    named = {name: _attribute(item, name, "S") for name in texts}
    absent = dict.fromkeys(("event_type", "body_object", "conflict", "conflicts_with"))
    given = {n: _attribute(item, n, "S") for n in absent if n in item}
    found = {n: _attribute(item, n, "S") for n in ("webhook_id", "webhook_type") if n in item}
    return {
        **named,
        **{name: _number(item, name) for name in numbers},
        "webhook_id": "",
        "webhook_type": "",
        **found,
        **absent,
        **given,
        "headers": json.loads(_attribute(item, "headers", "S")),
        "body": _attribute(item, "body", "B") if "body" in item else None,
    }


def _intent(item: Item) -> dict[str, Any]:
    standing = _attribute(item, "standing", "S")
    if standing not in _STANDINGS:
        raise Unreadable(f"standing: {standing!r}")
    expires = _number(item, "key_expires_at") if "key_expires_at" in item else None
    return {
        **{name: _attribute(item, name, "S") for name in ("effect", "provider_key", "request")},
        "key_expires_at": expires,
        "owner": _attribute(item, "owner", "S"),
        "lease_until": _number(item, "lease_until"),
        "standing": standing,
        "outcome": _attribute(item, "effect_outcome", "S") if "effect_outcome" in item else None,
        "settlement": _attribute(item, "settlement", "S") if "settlement" in item else None,
    }


def _commit(image: Item) -> Any:
    """Read which commit wrote a dedup record, or a sequence item."""
    return image.get("commit", image.get("once_commit"))


def _bodies(array: str) -> Iterator[tuple[Item, str]]:
    position = array.index("[") + 1
    while array[position] != "]":
        tree, end = _DECODER.raw_decode(array, position)
        yield tree, array[position:end]
        position = _BETWEEN.match(array, end).end()  # type: ignore[union-attr]


def _original(body: str, attributes: Item) -> dict[str, Any]:
    if _PACKED in attributes:
        content = json.loads(gzip.decompress(_attribute(attributes, _PACKED, "BinaryValue")))
        if set(content) != {"body", "attributes"}:  # version 1 takes these two and no third
            raise Unreadable(f"{_PACKED}: {sorted(content)}")
        return dict(content)
    kept = json.loads(_text(attributes, "once-attributes") or "{}")
    own = {
        name: {key[0].lower() + key[1:]: _plain(part) for key, part in value.items()}
        for name, value in attributes.items()
        if not name.startswith("once-")
    }
    return {"body": body, "attributes": {**kept, **own}}


def _plain(part: str | bytes) -> str:
    return b64encode(part).decode() if isinstance(part, bytes) else part


def _text(attributes: Item, name: str) -> str | None:
    return _attribute(attributes, name, "StringValue") if name in attributes else None


def _attribute(item: Item, name: str, kind: str) -> Any:
    if kind not in item.get(name, {}):
        raise Unreadable(f"{name}: {item.get(name)} is no {kind}")
    return item[name][kind]


def _number(item: Item, name: str) -> int:
    return int(_attribute(item, name, "N"))


def _member(tree: Item, name: str) -> str:
    if not isinstance(tree.get(name), str):
        raise Unreadable(f"{name}: {tree.get(name)!r}")
    return str(tree[name])
