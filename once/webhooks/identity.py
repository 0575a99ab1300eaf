"""Identity of a webhook: its id, its type, its content, and the key that it is deduplicated by."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key, value_at
from once.events.fingerprint import digest
from once.events.strict_json import parse
from once.handlers.transaction import Identity
from once.webhooks.endpoint import Endpoint
from once.webhooks.http import Request

_BY_EVENT = Key.event()


@dataclass(frozen=True, slots=True)
class Webhook:
    """A verified webhook.

    Attributes:
        endpoint: its endpoint.
        request: the request.
        id: the provider's id; empty if it gives none.
        type: the provider's type; empty if it gives none.
        data: the JSON of the body; None if it is not strict JSON.
        sha256: the SHA-256 of the body, in hexadecimal.
    """

    endpoint: Endpoint
    request: Request
    id: str
    type: str
    data: Any
    sha256: str

    @classmethod
    def of(cls, endpoint: Endpoint, request: Request) -> "Webhook":
        """Read a request whose signature was verified."""
        data = _data(endpoint, request)
        profile = endpoint.profile
        types = (_at(place, request, data) for place in profile.type)
        return cls(
            endpoint,
            request,
            id=_at(profile.id, request, data),
            type=next(filter(None, types), ""),
            data=data,
            sha256=sha256(request.body).hexdigest(),
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
        """Return its dedup key and its fingerprint."""
        fingerprint = self._content
        pk = _BY_EVENT.of(self.event, fingerprint=fingerprint, consumer=consumer)
        return Identity(pk, fingerprint)

    @property
    def _key(self) -> str:
        if self.id and self.endpoint.profile.has_signed_id:
            return self.id
        if self.id and self.endpoint.trusts_id:
            return f"{self.id}:{self.sha256}"
        return f"sha256:{self.sha256 if self.endpoint.profile.id else self._content}"

    @property
    def _content(self) -> str:
        """The hash of what may not differ between two deliveries."""
        if self.data is None:
            return self.sha256
        volatile = self.endpoint.profile.volatile
        data = self.data
        if volatile and isinstance(data, dict):
            data = {name: value for name, value in data.items() if name not in volatile}
        return digest(data)


def _data(endpoint: Endpoint, request: Request) -> Any:
    """Return the JSON of a body; None if it is not strict JSON."""
    try:
        text = request.body.decode()
        if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            [text] = parse_qs(text, strict_parsing=True)[endpoint.profile.form_field]
        return parse(text, max_bytes=endpoint.limit)
    except (OnceError, ValueError, KeyError):
        return None


def _at(place: str, request: Request, data: Any) -> str:
    kind, _, name = place.partition(":")
    value = request.headers.get(name) if kind == "header" else value_at(data, name)
    return value if isinstance(value, str) else ""
