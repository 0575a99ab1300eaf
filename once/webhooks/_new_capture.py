"""New capture: what is kept of a webhook. Each part is limited, so that the item always fits."""

from collections.abc import Iterator
from dataclasses import dataclass

from once.webhooks._event_draft import TEXT_CHARACTERS
from once.webhooks.capture import INLINE_BYTES, KEPT_HEADERS, Capture, Conflict, Standing, Verified
from once.webhooks.endpoint import Endpoint
from once.webhooks.identity import Webhook
from once.webhooks.settings import OBJECTS

_HEADER_BYTES = 32 * 1024
"""The most of all headers together: what Lambda and API Gateway accept is less."""
_PATH_CHARACTERS = 8 * 1024


@dataclass(frozen=True, slots=True)
class Receipt:
    """A verified webhook; `received_at` is in milliseconds since the epoch."""

    webhook: Webhook
    verified: Verified
    received_at: int


def new_capture(
    receipt: Receipt,
    standing: Standing,
    *,
    pk: str,
    conflict: tuple[Conflict, str] | None,
    kept_seconds: int,
) -> Capture:
    """Return the capture of a webhook.

    Args:
        receipt: the webhook.
        standing: what becomes of it.
        pk: its dedup key.
        conflict: of a conflict, its reason and the key of the earlier webhook.
        kept_seconds: the time for which the capture is kept.
    """
    webhook, received_at = receipt.webhook, receipt.received_at
    request, endpoint = webhook.request, webhook.endpoint
    is_large = len(request.body) > INLINE_BYTES
    return Capture(
        pk=pk,
        received_at=received_at,
        endpoint=endpoint.name,
        profile=endpoint.profile.name,
        webhook_id=webhook.id[:TEXT_CHARACTERS],
        webhook_type=webhook.type[:TEXT_CHARACTERS],
        event_type=webhook.event_type if standing is Standing.HANDED_ON else None,
        standing=standing,
        conflict=conflict[0] if conflict else None,
        conflicts_with=conflict[1] if conflict else None,
        verified=receipt.verified,
        method=request.method,
        path=request.path[:_PATH_CHARACTERS],
        headers=_kept_headers(webhook),
        body=None if is_large else request.body,
        body_object=f"{OBJECTS}{endpoint.name}/{webhook.sha256}" if is_large else None,
        body_bytes=len(request.body),
        body_sha256=webhook.sha256,
        expires_at=received_at // 1000 + kept_seconds,
    )


def _kept_headers(webhook: Webhook) -> dict[str, str]:
    """Return the headers to keep; one that no longer fits is left out, never cut off."""
    kept: dict[str, str] = {}
    left = _HEADER_BYTES
    for name in dict.fromkeys(_header_names(webhook.endpoint)):
        value = webhook.request.headers.get(name)
        if value is not None and (size := len(name) + len(value.encode())) <= left:
            kept[name] = value
            left -= size
    return kept


def _header_names(endpoint: Endpoint) -> Iterator[str]:
    profile = endpoint.profile
    yield from filter(None, (profile.signature_header, profile.timestamp_header))
    for place in (profile.id, *profile.type):
        if place.startswith("header:"):
            yield place.removeprefix("header:")
    yield from (*KEPT_HEADERS, *profile.kept_headers)
