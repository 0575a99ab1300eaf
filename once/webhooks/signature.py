"""Signatures: whether a request comes from the provider, and when it was signed."""

import base64
import hmac
from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256

from once.webhooks import _standard_webhooks
from once.webhooks._signed_request import SignedRequest
from once.webhooks.http import Request
from once.webhooks.profile import Encoding, Form, Profile


class Verdict(StrEnum):
    """The result of a verification."""

    GENUINE = "genuine"
    FORGED = "forged"
    """No secret gives one of its signatures, or it has none."""
    STALE = "stale"
    """Its signature is right, and its time is too long ago or too far ahead."""


def verify(profile: Profile, secrets: Sequence[str], request: Request, now: float) -> Verdict:
    """Return whether the provider signed a request.

    Every secret is tried against every signature, each in constant time. Whatever a sender wrote,
    nothing is raised. A secret that cannot be used, such as an empty one, verifies nothing.

    Args:
        profile: the provider's rules.
        secrets: the secrets that are valid now, the previous ones among them.
        request: the request, whose size was checked.
        now: the time, in seconds since the epoch.

    Raises:
        ModuleNotFoundError: a secret of Standard Webhooks, and its package is not installed.
    """
    signed = SignedRequest.of(profile, request)
    if True not in [_is_signed(profile, secret, signed) for secret in secrets]:
        return Verdict.FORGED
    return Verdict.GENUINE if _is_timely(profile, signed, now) else Verdict.STALE


def sign(
    profile: Profile, secret: str, body: bytes, *, webhook_id: str, now: float
) -> dict[str, str]:
    """Return the headers with which the provider would sign a body, by their names in lower case.

    They are the signature, the time if one is signed, and the id if a header holds it.

    Args:
        profile: the provider's rules.
        secret: the secret; for a signature by public key, the secret key `whsk_…`.
        body: the body, with its id and type where the profile has them in the body.
        webhook_id: the id, for profiles that have it in a header.
        now: the time of the signature, in seconds since the epoch.

    Raises:
        ValueError: the secret cannot sign, or not this body; the text says why, without either.
    """
    signed = SignedRequest(id=webhook_id, timestamp=str(int(now)), body=body)
    headers = {profile.signature_header: _header(profile, secret, signed)}
    if profile.timestamp_header:
        headers[profile.timestamp_header] = signed.timestamp
    if profile.id.startswith("header:"):
        headers[profile.id.removeprefix("header:")] = webhook_id
    return headers


def _header(profile: Profile, secret: str, signed: SignedRequest) -> str:
    if not secret:
        raise ValueError("the secret is empty")
    if profile.form is Form.STANDARD:
        return _standard_webhooks.signature_of(secret, signed)
    digest = _hmac(profile, secret, signed)
    hexadecimal = profile.encoding is Encoding.HEX
    text = digest.hex() if hexadecimal else base64.b64encode(digest).decode()
    if profile.form is Form.PAIRS:
        return f"t={signed.timestamp},{profile.prefix}={text}"
    return f"{profile.prefix}{text}"


def _is_signed(profile: Profile, secret: str, signed: SignedRequest) -> bool:
    if not secret:  # an HMAC with an empty key can be made by anybody
        return False
    if profile.form is Form.STANDARD:
        return _standard_webhooks.is_signed(secret, signed)
    expected = _hmac(profile, secret, signed)
    return True in [hmac.compare_digest(expected, each) for each in signed.signatures]


def _hmac(profile: Profile, secret: str, signed: SignedRequest) -> bytes:
    return hmac.new(secret.encode(), signed.content(profile.signed), sha256).digest()


def _is_timely(profile: Profile, signed: SignedRequest, now: float) -> bool:
    if not profile.tolerance_seconds:
        return True
    at = signed.seconds
    return at is not None and abs(at - now) <= profile.tolerance_seconds
