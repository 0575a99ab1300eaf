"""Captures as JSON values; times in ISO 8601."""

from base64 import b64encode
from typing import Any

from once.events.dedup_key import key_hash
from once.ops.webhooks.capture_text import event_name, expires_at, received_at
from once.webhooks.capture import Capture


def capture_json(capture: Capture) -> dict[str, Any]:
    """Return the metadata of a capture, without headers and body."""
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
    source, event_id = event_name(capture)
    try:
        text, encoded = body.decode(), None
    except UnicodeDecodeError:
        text, encoded = None, b64encode(body).decode()
    return {
        **capture_json(capture),
        "event_id": event_id if capture.event_type else None,
        "source": source if capture.event_type else None,
        "verified": capture.verified,
        "method": capture.method,
        "path": capture.path,
        "headers": dict(capture.headers),
        "body": text,
        "body_base64": encoded,
    }
