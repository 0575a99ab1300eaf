"""Webhook: the request as it came, and its id, type, content, dedup key and event.

The signed bytes alone decide how a body is read, and they are the key: the provider's id if the
signature covers it, otherwise the hash of the body. Anybody can change a header that is not signed
(ADR 0044): it joins the key only where the profile or the endpoint says so. No content of a
verified request raises an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs

from msgspec.structs import replace

from once.errors import OnceError, Unparseable, Unpublishable
from once.events.cloud_event import CloudEvent
from once.events.identity import Key, consumer_of, digest, key_hash, value_at, without
from once.events.outgoing import ClaimPlace, Draft, OutgoingEvent, events_in, parsed_draft, written
from once.events.strict_json import parse, whole_number
from once.names import Record
from once.runtime.lambda_http import Request
from once.transaction import Identity
from once.webhooks.captured_webhook import (
    INLINE_BYTES,
    Capture,
    CaptureStanding,
    Conflict,
    Verified,
)
from once.webhooks.endpoint import OBJECTS, TEXT_CHARACTERS, Endpoint

if TYPE_CHECKING:
    from once.events.claim_check import Claim

MAX_ID_BYTES = 512
"""The longest id that stays as it is. A dedup key has at most 2,048 bytes, and escaping and Unicode
normalisation make an id up to three times as long. Providers' ids have some 40 bytes."""

_TYPE_BYTES = 64
"""The longest type that stays as it is in a key; Shopify's have some 30 bytes."""

_KEPT_HEADERS = ("content-type", "content-encoding", "user-agent")
"""Headers that every capture keeps, besides those of the provider's profile."""

_PATH_CHARACTERS = 8 * 1024
_HEADER_BYTES = 32 * 1024
"""Maximum of all headers together; Lambda and API Gateway accept less."""

_MAX_FORM_FIELDS = 64
_OBJECT_OR_ARRAY = re.compile(r"\ufeff?[ \t\r\n]*[{\[]")
_BY_EVENT = Key.event()


@dataclass(frozen=True, slots=True)
class Webhook:
    """A verified webhook.

    Attributes:
        id: the provider's id, whole numbers as their digits; empty if it gives none. One of more
            than `MAX_ID_BYTES` is replaced by its hash.
        type: the provider's type; empty if it gives none.
        event_type: the type of its event; None if it is captured only.
        data: the JSON of the body; None if it is not strict JSON.
        content: the hash of what may not differ between two deliveries: of the canonical form of
            the data without the fields that change, or of the body if it is not strict JSON.
        sha256: the SHA-256 of the body, in hexadecimal.
    """

    endpoint: Endpoint
    request: Request
    id: str
    type: str
    event_type: str | None
    data: Any
    content: str
    sha256: str

    @classmethod
    def of(cls, endpoint: Endpoint, request: Request) -> Self:
        """Read a request whose signature was verified."""
        raw = sha256(request.body).hexdigest()
        try:
            data = _data(endpoint, request)
            content = digest(without(data, endpoint.profile.volatile))
        except (OnceError, ValueError, KeyError):
            data, content = None, raw
        kind = _type(endpoint, request, data)
        is_event = data is not None and kind in endpoint.types
        return cls(
            endpoint,
            request,
            id=_id(_at(endpoint.profile.as_sent(request.headers).id, request, data)),
            type=kind,
            event_type=endpoint.event_type(kind) if is_event else None,
            data=data,
            content=content,
            sha256=raw,
        )

    @property
    def challenge(self) -> str | None:
        """The text that answers a handshake; None for a webhook."""
        if self.endpoint.profile.challenge is None or not isinstance(self.data, dict):
            return None
        kind, field = self.endpoint.profile.challenge
        value = self.data.get(field)
        return value if self.data.get("type") == kind and isinstance(value, str) else None

    @property
    def event(self) -> CloudEvent:
        """The event that its dedup record is about, without data; its id is the webhook's key."""
        event_type = self.endpoint.event_type(self.type or "untyped")[:TEXT_CHARACTERS]
        return CloudEvent(id=self._key, source=self.endpoint.source, type=event_type)

    def identity(self, consumer: str) -> Identity:
        """Return its dedup key and its fingerprint: of the content, and of a type in a header."""
        has_signed_type = self.endpoint.profile.has_signed_type
        content = self.content if has_signed_type else digest([self.content, self.type])
        return Identity(dedup_key(self.endpoint, self._key, consumer), content)

    def conflict_identity(self, consumer: str) -> Identity:
        """Return its identity if its own key belongs to a webhook that differs from it.

        It is the same for each delivery of this content and type under this key.
        """
        own = self.identity(consumer)
        key = f"conflict:{key_hash(own.pk)}:{own.fingerprint}"
        return Identity(dedup_key(self.endpoint, key, consumer), own.fingerprint)

    @property
    def is_keyed_by_id(self) -> bool:
        """Whether a signed id is its key; otherwise the key contains the hash of its content."""
        return bool(self.id) and self.endpoint.profile.has_signed_id

    @property
    def _key(self) -> str:
        if self.is_keyed_by_id:
            key = self.id  # a webhook that is sent again has it, and no sender can change it
        elif self.id and self.endpoint.trusts_id:
            # With the body: by the id alone, a request with a changed id would take the place of
            # another webhook.
            key = f"{self.id}:{self.sha256}"
        else:
            key = f"sha256:{self.sha256 if self.endpoint.profile.id else self.content}"
        is_part = self.endpoint.profile.type_in_key
        return f"{key}:{_bounded(self.type, _TYPE_BYTES)}" if is_part else key

    def draft(
        self, event_type: str, pk: str, *, group_field: str | None, claims: ClaimPlace | None
    ) -> Draft:
        """Return the draft of its event: the event's data is the JSON of the body.

        `group_field` of the data gives the message group, if the type has one. `claims` is the
        place of large data; None without a claim-check bucket.

        Raises:
            InvalidWrite: the data does not give the message group, or no consumer could read it.
            TooLarge: with a claim-check bucket, the data is over its largest object.
        """
        name = self.endpoint.name
        draft = parsed_draft(event_type, self.data, name, grouped_by=group_field)
        if claims is not None:
            draft = claims.fitting(draft, (), pk)
        extensions = {"webhookid": self.id or self.sha256, "webhookendpoint": name}
        return replace(draft, extensions=extensions)

    def capture(
        self,
        *,
        pk: str,
        standing: CaptureStanding,
        conflict: tuple[Conflict, str] | None,
        verified: Verified,
        received_at: int,
        kept_seconds: int,
    ) -> Capture:
        """Return the capture of this webhook; `received_at` is in milliseconds since the epoch.

        A conflict has its reason, and the key of the earlier webhook.
        """
        request, endpoint = self.request, self.endpoint
        is_large = len(request.body) > INLINE_BYTES
        return Capture(
            pk=pk,
            received_at=received_at,
            endpoint=endpoint.name,
            profile=endpoint.profile.name,
            webhook_id=self.id[:TEXT_CHARACTERS],
            webhook_type=self.type[:TEXT_CHARACTERS],
            event_type=self.event_type if standing is CaptureStanding.HANDED_ON else None,
            standing=standing,
            conflict=conflict[0] if conflict else None,
            conflicts_with=conflict[1] if conflict else None,
            verified=verified,
            method=request.method,
            path=request.path[:_PATH_CHARACTERS],
            headers=_kept_headers(endpoint, request.headers),
            body=None if is_large else request.body,
            body_object=f"{OBJECTS}{endpoint.name}/{self.sha256}" if is_large else None,
            body_bytes=len(request.body),
            body_sha256=self.sha256,
            expires_at=received_at // 1000 + kept_seconds,
        )


def _kept_headers(endpoint: Endpoint, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to keep; one that no longer fits is left out, never cut off."""
    profile = endpoint.profile.as_sent(headers)
    places = (profile.id, *profile.type)
    names = (
        *filter(None, (profile.signature_header, profile.timestamp_header)),
        *(each.removeprefix("header:") for each in places if each.startswith("header:")),
        *_KEPT_HEADERS,
        *profile.kept_headers,
    )
    kept: dict[str, str] = {}
    left = _HEADER_BYTES
    for name in dict.fromkeys(names):
        value = headers.get(name)
        if value is not None and (size := len(name) + len(value.encode())) <= left:
            kept[name] = value
            left -= size
    return kept


def rebuilt_event(
    capture: Capture,
    body: bytes,
    endpoint: Endpoint,
    *,
    group_field: str | None = None,
    claims: ClaimPlace | None = None,
) -> "tuple[OutgoingEvent, Claim | None]":
    """Return the event of a capture, and its data if that is an object to store before.

    Of a webhook that was handed on, it is the event that was published, byte for byte: its
    consumers recognise it as a duplicate. Of another webhook, the event gets an id of its own. The
    endpoint is the one of now. For `group_field` and `claims` see `Webhook.draft`.

    Raises:
        Unpublishable: the endpoint does not hand on the webhook's type.
        Unparseable: the body is not strict JSON.
        InvalidWrite, TooLarge: no topic or consumer could take the event.
    """
    event_type = capture.event_type
    if event_type is None:
        if capture.webhook_type not in endpoint.types:
            raise Unpublishable(
                f"the endpoint {endpoint.name} does not hand its type on: add the type to types= "
                "of the endpoint in the CDK app and deploy, or send it to a URL"
            )
        event_type = endpoint.event_type(capture.webhook_type)
    webhook = Webhook.of(endpoint, Request(capture.method, capture.path, capture.headers, body))
    if webhook.data is None:
        raise Unparseable("the body is not strict JSON, so it can be sent to a URL only")
    draft = webhook.draft(event_type, capture.pk, group_field=group_field, claims=claims)
    outbox = written(
        [draft],
        inbound=webhook.event,
        pk=capture.pk,
        consumer=consumer_of(capture.pk),
        now=capture.received_at / 1000,
    )
    [event] = events_in({Record.OUTBOX: {"S": outbox}})
    return event, draft.claim


def dedup_key(endpoint: Endpoint, key: str, consumer: str) -> str:
    """Return the dedup key under which an ingress, the consumer, captures a webhook.

    The webhook's key at the endpoint is its signed id, for example.

    Raises:
        TooLarge: the key is too long.
    """
    event = CloudEvent(id=key, source=endpoint.source, type="")
    return _BY_EVENT.of(event, fingerprint="", consumer=consumer)


def _data(endpoint: Endpoint, request: Request) -> Any:
    """Return the JSON of a body.

    Raises:
        OnceError, ValueError, KeyError: it is not strict JSON, nor a form with one such field.
    """
    text, field = request.body.decode(), endpoint.profile.form_field
    if field and not _OBJECT_OR_ARRAY.match(text):
        fields = parse_qs(
            text, strict_parsing=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS
        )
        [text] = fields[field]
    return parse(text, max_bytes=endpoint.limit)


def _id(value: Any) -> str:
    number = whole_number(value)
    text = value if number is None else str(number)
    if not isinstance(text, str) or not text.strip():
        return ""
    return _bounded(text, MAX_ID_BYTES)


def _bounded(text: str, most: int) -> str:
    """Return a text of at most so many bytes as it is, and the hash of another one."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > most or _has_surrogates(text):
        return f"sha256:{sha256(encoded).hexdigest()}"
    return text


def _type(endpoint: Endpoint, request: Request, data: Any) -> str:
    for place in endpoint.profile.type:
        value = _at(place, request, data)
        if isinstance(value, str) and value and not _has_surrogates(value):
            return value
    return ""


def _has_surrogates(text: str) -> bool:
    """Return whether a text has lone surrogates, which a header in Lambda's JSON can have."""
    return text != text.encode("utf-8", "replace").decode()


def _at(place: str, request: Request, data: Any) -> Any:
    kind, _, name = place.partition(":")
    return request.headers.get(name) if kind == "header" else value_at(data, name)
