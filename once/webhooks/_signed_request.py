"""Signed request: what the provider signed, and the signatures that a request claims for it.

Nothing here raises on what a sender wrote, nor reads it as a template.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from once.webhooks.http import Request
from once.webhooks.profile import Encoding, Form, Profile

MAX_SIGNATURES = 16
"""Providers send one signature for each valid secret. A public-key signature over a large body
takes milliseconds to verify, so that a header with thousands would cost seconds."""

_FIELD = re.compile(r"(\{(?:body|timestamp|id)\})")
_SECONDS = re.compile(r"[0-9]{1,11}")
"""A time in seconds since the epoch, before the year 5138: `int` takes other digits as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """Signed part of a request, and its signatures.

    Attributes:
        id: the id in the headers; empty if there is none, or if the profile reads the body's.
        timestamp: the time as it was sent; empty if none is signed.
        body: the bytes of the body.
        signatures: the HMACs.
        public_signatures: the Ed25519 signatures, which Standard Webhooks knows.
    """

    id: str
    timestamp: str
    body: bytes
    signatures: tuple[bytes, ...] = ()
    public_signatures: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, profile: Profile, request: Request) -> "SignedRequest":
        """Read a request. Signatures that are not encoded as they must be are left out."""
        header = request.headers.get(profile.signature_header, "")
        timestamp = request.headers.get(profile.timestamp_header, "")
        public: list[str] = []
        if profile.form is Form.PAIRS:
            pairs = [part.strip().partition("=") for part in header.split(",")]
            timestamp = next((value for name, _, value in pairs if name == "t"), "")
            texts = [value for name, _, value in pairs if name == profile.prefix]
        elif profile.form is Form.STANDARD:
            versions = [part.partition(",") for part in header.split(" ")]
            texts = [text for version, _, text in versions if version == "v1"]
            public = [text for version, _, text in versions if version == "v1a"]
        else:
            texts = [header.removeprefix(profile.prefix)] * header.startswith(profile.prefix)
        if len(texts) + len(public) > MAX_SIGNATURES:
            texts, public = [], []
        return cls(
            id=_id(profile, request),
            timestamp=timestamp,
            body=request.body,
            signatures=tuple(_decoded(texts, profile.encoding)),
            public_signatures=tuple(_decoded(public, profile.encoding)),
        )

    @property
    def seconds(self) -> int | None:
        """The signed time, in seconds since the epoch; None if there is none that can be read."""
        return int(self.timestamp) if _SECONDS.fullmatch(self.timestamp) else None

    def content(self, template: str) -> bytes:
        """Return the bytes that are signed, by a profile's `signed`."""
        fields = {
            "{body}": self.body,
            "{timestamp}": _bytes(self.timestamp),
            "{id}": _bytes(self.id),
        }
        return b"".join(fields.get(part, part.encode()) for part in _FIELD.split(template))


def _id(profile: Profile, request: Request) -> str:
    kind, _, name = profile.id.partition(":")
    return request.headers.get(name, "") if kind == "header" else ""


def _decoded(texts: Iterable[str], encoding: Encoding) -> Iterator[bytes]:
    for text in texts:
        try:
            if encoding is Encoding.HEX:
                yield bytes.fromhex(text)
            else:
                yield base64.b64decode(text, validate=True)
        except ValueError:
            continue


def _bytes(text: str) -> bytes:
    # JSON can hold lone surrogates. No provider signs them, so any bytes will do.
    return text.encode("utf-8", "surrogatepass")
