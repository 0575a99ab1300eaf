"""Identity of a webhook: its id, its type, its content, and the key that it is deduplicated by.

The signed bytes alone decide how a body is read, and they are the key: the provider's id if the
signature covers it, otherwise the hash of the body. Anybody who has seen a request can change a
header that is not signed and send it again, and the signature still holds. Such a header joins the
key only where the profile or the endpoint says that equal bodies are several webhooks. Another type
is otherwise a conflict. Nothing here raises on what a verified request says.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, value_at
from once.events.fingerprint import digest
from once.events.strict_json import parse
from once.transaction import Identity
from once.webhooks.endpoint import Endpoint
from once.webhooks.http import Request

MAX_ID_BYTES = 512
"""The longest id that stays as it is. A dedup key has at most 2,048 bytes, and escaping and Unicode
normalisation make an id up to three times as long. Providers' ids have some 40 bytes."""

_TYPE_BYTES = 64
"""The longest type that stays as it is in a key; Shopify's have some 30 bytes."""

_MAX_FORM_FIELDS = 64
_OBJECT_OR_ARRAY = re.compile(r"[ \t\r\n]*[{\[]")
_BY_EVENT = Key.event()


@dataclass(frozen=True, slots=True)
class Webhook:
    """A verified webhook.

    Attributes:
        endpoint: its endpoint.
        request: the request.
        id: the provider's id, whole numbers as their digits; empty if it gives none. One of more
            than `MAX_ID_BYTES` is replaced by its hash.
        type: the provider's type; empty if it gives none.
        data: the JSON of the body; None if it is not strict JSON.
        content: the hash of what may not differ between two deliveries: of the canonical form of
            the data without the fields that change, or of the body if it is not strict JSON.
        sha256: the SHA-256 of the body, in hexadecimal.
    """

    endpoint: Endpoint
    request: Request
    id: str
    type: str
    data: Any
    content: str
    sha256: str

    @classmethod
    def of(cls, endpoint: Endpoint, request: Request) -> "Webhook":
        """Read a request whose signature was verified."""
        raw = sha256(request.body).hexdigest()
        try:
            data = _data(endpoint, request)
            content = digest(_without(data, endpoint.profile.volatile))
        except (OnceError, ValueError, KeyError):
            data, content = None, raw
        return cls(
            endpoint,
            request,
            id=_id(_at(endpoint.profile.id, request, data)),
            type=_type(endpoint, request, data),
            data=data,
            content=content,
            sha256=raw,
        )

    @property
    def event_type(self) -> str | None:
        """The type of its event; None if it is captured only."""
        handed_on = self.data is not None and self.type in self.endpoint.types
        return self.endpoint.event_type(self.type) if handed_on else None

    @property
    def event(self) -> CloudEvent:
        """The webhook as the event that its dedup record is about."""
        kind = self.event_type or self.endpoint.event_type(self.type or "untyped")
        return CloudEvent(id=self._key, source=self.endpoint.source, type=kind, data=self.data)

    def identity(self, consumer: str) -> Identity:
        """Return its dedup key and its fingerprint: of the content, and of a type in a header."""
        pk = _BY_EVENT.of(self.event, fingerprint=self.content, consumer=consumer)
        if self.endpoint.profile.has_signed_type:
            return Identity(pk, self.content)
        return Identity(pk, digest([self.content, self.type]))

    @property
    def is_keyed_by_id(self) -> bool:
        """Whether a signed id is its key; otherwise the key contains the hash of its content."""
        return bool(self.id) and self.endpoint.profile.has_signed_id

    @property
    def _key(self) -> str:
        if self.is_keyed_by_id:
            key = self.id
        elif self.id and self.endpoint.trusts_id:
            key = f"{self.id}:{self.sha256}"
        else:
            key = f"sha256:{self.sha256 if self.endpoint.profile.id else self.content}"
        is_part = self.endpoint.profile.type_in_key
        return f"{key}:{_bounded(self.type, _TYPE_BYTES)}" if is_part else key


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


def _without(data: Any, names: tuple[str, ...]) -> Any:
    if names and isinstance(data, dict):
        return {name: value for name, value in data.items() if name not in names}
    return data


def _id(value: Any) -> str:
    text = str(value) if type(value) is int else value
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
