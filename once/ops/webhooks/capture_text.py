"""Captures as text and as JSON: a table, one capture with its headers, and its body."""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from once.errors import OnceError
from once.events.identity import consumer_of, key_hash
from once.events.outgoing import event_id_of
from once.events.strict_json import parse
from once.names import SOURCE_PREFIX
from once.ops.terminal import UNKNOWN, format_age, format_time, shortened, single_line, table
from once.webhooks.captured_webhook import Capture, CaptureStanding, Conflict

STANDINGS = {
    CaptureStanding.HANDED_ON: "handed on",
    CaptureStanding.CAPTURED: "captured: its endpoint does not hand its type on",
    CaptureStanding.UNREADABLE: "unreadable: its body is not strict JSON",
    CaptureStanding.UNPUBLISHABLE: "unpublishable: no topic or consumer could take its event",
}

CONFLICTS = {
    Conflict.CONTENT: "other content: a webhook with its id came before with other content",
    Conflict.TYPE: "other type: its bytes came before with another type, which is not signed",
    Conflict.RECORD: "unreadable record: the dedup record under its key cannot be read",
}

_HASH_CHARACTERS = 12
_HEX_BYTES = 32


def name_of(capture: Capture) -> str:
    """Return an id that an operator may give: the provider's, or the start of a hash.

    The provider's id and the body of a conflict may be those of the earlier webhook, so that only
    the hash of its key names it.
    """
    if capture.standing is CaptureStanding.CONFLICT:
        return key_hash(capture.pk)[:_HASH_CHARACTERS]
    return capture.webhook_id or capture.body_sha256[:_HASH_CHARACTERS]


def standing_text(capture: Capture) -> str:
    """Return the standing of a webhook, and its reason if it was not handed on."""
    if capture.conflict is not None:
        return f"{capture.standing}, {CONFLICTS[capture.conflict]}"
    return STANDINGS.get(capture.standing, capture.standing)


def received_at(capture: Capture) -> datetime:
    return datetime.fromtimestamp(capture.received_at / 1000, UTC)


def expires_at(capture: Capture) -> datetime:
    """Return the time from which DynamoDB deletes the capture."""
    return datetime.fromtimestamp(capture.expires_at, UTC)


def event_name(capture: Capture) -> tuple[str, str]:
    """Return source and id of the event of a webhook, whether it was published or not."""
    return SOURCE_PREFIX + consumer_of(capture.pk), event_id_of(key_hash(capture.pk), 0)


def captures_table(captures: Iterable[Capture]) -> Table:
    made = table("received", "endpoint", "type", "standing", ">bytes", "id")
    for capture in captures:
        made.add_row(
            format_time(received_at(capture)),
            single_line(capture.endpoint),
            single_line(capture.webhook_type) or UNKNOWN,
            standing_text(capture).partition(":")[0],
            str(capture.body_bytes),
            single_line(name_of(capture)),
        )
    return made


def capture_line(capture: Capture) -> str:
    """Return a capture in one line: its endpoint, type and id."""
    parts = (capture.endpoint, capture.webhook_type or UNKNOWN, name_of(capture))
    return single_line("  ".join(parts))


def capture_rows(capture: Capture, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield names and values of a capture's facts and headers; a name is empty if it continues."""
    received = received_at(capture)
    yield "endpoint", single_line(f"{capture.endpoint}, profile {capture.profile}")
    yield "type", single_line(capture.webhook_type) or "none given"
    yield "id", single_line(capture.webhook_id) or "none given"
    yield "standing", standing_text(capture)
    if capture.conflicts_with:
        yield "earlier key", single_line(capture.conflicts_with)
    if capture.event_type:
        source, event_id = event_name(capture)
        yield "event", single_line(f"{capture.event_type}, id {event_id}, source {source}")
    yield "received", f"{format_time(received)} ({format_age(now - received)} ago)"
    yield "kept until", format_time(expires_at(capture))
    yield "signature", f"genuine, by the {capture.verified} version of the secret"
    yield "request", single_line(f"{capture.method} {capture.path}")
    yield "body", f"{capture.body_bytes} bytes, SHA-256 {single_line(capture.body_sha256)}"
    if capture.body_object:
        yield "", single_line(f"in S3: {capture.body_object}")
    yield "dedup key", single_line(capture.pk)
    yield "", f"SHA-256 {key_hash(capture.pk)}"
    for number, (header, value) in enumerate(capture.headers.items()):
        yield "" if number else "headers", single_line(f"{header}: {value}")


def body_text(body: bytes) -> str:
    """Return a body as text, JSON indented; in hexadecimal if it is not UTF-8."""
    try:
        text = body.decode()
        text = json.dumps(parse(text, max_bytes=len(body)), indent=2, ensure_ascii=False)
    except UnicodeDecodeError:
        rows = (body[n : n + _HEX_BYTES] for n in range(0, len(body), _HEX_BYTES))
        text = "\n".join(row.hex(" ") for row in rows)
    except OnceError:  # it is not strict JSON
        pass
    return shortened(text, " more: --body-to writes all bytes")


def capture_json(capture: Capture) -> dict[str, Any]:
    return {
        "endpoint": capture.endpoint,
        "profile": capture.profile,
        "webhook_id": capture.webhook_id or None,
        "type": capture.webhook_type or None,
        "standing": str(capture.standing),
        "conflict": capture.conflict,
        "conflicts_with": capture.conflicts_with,
        "event_type": capture.event_type,
        "received": received_at(capture).isoformat(timespec="milliseconds"),
        "expires": expires_at(capture).isoformat(),
        "body_bytes": capture.body_bytes,
        "body_sha256": capture.body_sha256,
        "dedup_key": capture.pk,
        "key_hash": key_hash(capture.pk),
    }


def whole_capture_json(capture: Capture, body: bytes) -> dict[str, Any]:
    """Return all that is known of a capture; the body as text, or in Base64 if it is none."""
    source, event_id = event_name(capture) if capture.event_type else (None, None)
    try:
        text, encoded = body.decode(), None
    except UnicodeDecodeError:
        text, encoded = None, b64encode(body).decode()
    request = {n: getattr(capture, n) for n in ("verified", "method", "path", "headers")}
    event = {"event_id": event_id, "source": source}
    return {**capture_json(capture), **event, **request, "body": text, "body_base64": encoded}
