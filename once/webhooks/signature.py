"""Signatures: whether a request comes from the provider, and when it was signed."""

import base64
import binascii
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from once.webhooks.http import Request
from once.webhooks.profile import Encoding, Form, Profile


class Verdict(StrEnum):
    """The result of a verification."""

    GENUINE = "genuine"
    FORGED = "forged"
    """No secret gives one of its signatures, or it has none."""
    STALE = "stale"
    """Its signature is right, and its time is too long ago or too far ahead."""


@dataclass(frozen=True, slots=True)
class _Signed:
    """What a request claims: its signatures, and the time at which they were made."""

    signatures: tuple[bytes, ...]
    timestamp: str


def verify(profile: Profile, secrets: Sequence[str], request: Request, now: float) -> Verdict:
    """Return whether the provider signed a request, comparing in constant time.

    Args:
        profile: the provider's rules.
        secrets: the secrets that are valid now: the current one and the previous one.
        request: the request, whose size was checked.
        now: the time, in seconds since the epoch.
    """
    claimed = _claimed(profile, request)
    if not any([_matches(profile, secret, request, claimed) for secret in secrets]):  # noqa: C419
        return Verdict.FORGED
    return Verdict.GENUINE if _is_timely(profile, claimed, now) else Verdict.STALE


def _claimed(profile: Profile, request: Request) -> _Signed:
    header = request.headers.get(profile.signature_header, "")
    timestamp = request.headers.get(profile.timestamp_header, "")
    if profile.form is Form.PAIRS:
        pairs = [part.strip().partition("=") for part in header.split(",")]
        timestamp = next((value for name, _, value in pairs if name == "t"), "")
        texts = [value for name, _, value in pairs if name == profile.prefix]
    elif profile.form is Form.STANDARD:
        texts = [part.partition(",")[2] for part in header.split(" ") if part.startswith("v1,")]
    else:
        texts = [header.removeprefix(profile.prefix)] if header.startswith(profile.prefix) else []
    return _Signed(tuple(_decoded(texts, profile.encoding)), timestamp)


def _decoded(texts: Sequence[str], encoding: Encoding) -> Iterator[bytes]:
    for text in texts:
        try:
            if encoding is Encoding.HEX:
                yield bytes.fromhex(text)
            else:
                yield base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            continue


def _matches(profile: Profile, secret: str, request: Request, claimed: _Signed) -> bool:
    key = secret.encode()
    if profile.form is Form.STANDARD:
        key = base64.b64decode(secret.removeprefix("whsec_") + "==")
    expected = hmac.new(key, _content(profile, request, claimed), sha256).digest()
    found = [hmac.compare_digest(expected, each) for each in claimed.signatures]
    return any(found)


def _content(profile: Profile, request: Request, claimed: _Signed) -> bytes:
    before, _, after = profile.signed.partition("{body}")
    given = {"timestamp": claimed.timestamp, "id": _header_id(profile, request)}
    return before.format(**given).encode() + request.body + after.format(**given).encode()


def _header_id(profile: Profile, request: Request) -> str:
    kind, _, name = profile.id.partition(":")
    return request.headers.get(name, "") if kind == "header" else ""


def _is_timely(profile: Profile, claimed: _Signed, now: float) -> bool:
    if not profile.tolerance_seconds:
        return True
    if not (claimed.timestamp.isascii() and claimed.timestamp.isdigit()):
        return False
    return abs(int(claimed.timestamp) - now) <= profile.tolerance_seconds
