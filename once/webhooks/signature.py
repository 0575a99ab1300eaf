"""Signatures: whether a request comes from the provider, when it was signed, and by which secret.

The packages of Standard Webhooks, `standardwebhooks` (HMAC) and `pynacl`, are not imported before a
secret needs them. `standardwebhooks` takes one secret and `v1` only, and raises several errors for
malformed input; here each of them is a signature that does not match.

Secrets are read from Secrets Manager, and kept in memory for a while.
"""

import base64
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple, Self

from botocore.exceptions import BotoCoreError, ClientError

from once.errors import RetryableError, extra, summary_of
from once.names import explained_by
from once.runtime.lambda_http import Request
from once.webhooks.endpoint import STANDARD, Encoding, Form, Profile

MAX_SIGNATURES = 16
"""Providers send one signature for each valid secret. A public-key signature over a large body
takes milliseconds to verify, so that a header with thousands would cost seconds."""

_FIELD = re.compile(r"(\{(?:body|timestamp|id)\})")
_SECONDS = re.compile(r"[1-9][0-9]{9}")
"""A time in seconds since the epoch, from 2001 to 2286. All have ten digits, so that the end of a
time in the signed bytes is certain, also without a separator. `int` takes other digits as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """Signed part of a request, and its signatures.

    Attributes:
        id: the id in the headers; empty if there is none, or if the profile reads the body's.
        timestamp: the time as it was sent; empty if none is signed.
        signatures: the HMACs.
        public_signatures: the Ed25519 signatures, which Standard Webhooks knows.
    """

    id: str
    timestamp: str
    body: bytes
    signatures: tuple[bytes, ...] = ()
    public_signatures: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, profile: Profile, request: Request) -> Self:
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
        kind, _, name = profile.id.partition(":")
        return cls(
            id=request.headers.get(name, "") if kind == "header" else "",
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
        # JSON can hold lone surrogates. No provider signs them, so any bytes will do.
        fields = {
            "{body}": self.body,
            "{timestamp}": self.timestamp.encode("utf-8", "surrogatepass"),
            "{id}": self.id.encode("utf-8", "surrogatepass"),
        }
        return b"".join(fields.get(part, part.encode()) for part in _FIELD.split(template))


def _decoded(texts: Iterable[str], encoding: Encoding) -> Iterator[bytes]:
    for text in texts:
        try:
            if encoding is Encoding.HEX:
                yield bytes.fromhex(text)
            else:
                yield base64.b64decode(text, validate=True)
        except ValueError:
            continue


class Authenticity(StrEnum):
    """The result of a verification."""

    GENUINE = "genuine"
    FORGED = "forged"
    """No secret gives one of its signatures, or it has none."""
    STALE = "stale"
    """Its signature is right, and its time is too long ago or too far ahead."""


def verify(profile: Profile, secrets: Sequence[str], request: Request, now: float) -> Authenticity:
    """Return whether the provider signed a request.

    An id that contains the separator of its scheme counts as forged: see `Profile.id_end`. Every
    secret is tried against every signature, each in constant time. No input of a sender
    raises an error. A secret that cannot be used, such as an empty one, verifies nothing.

    The size of the request was checked; `now` is in seconds since the epoch.

    Raises:
        ModuleNotFoundError: a secret of Standard Webhooks, and its package is not installed.
    """
    profile = profile.as_sent(request.headers)
    signed = SignedRequest.of(profile, request)
    if profile.id_end and profile.id_end in signed.id:
        return Authenticity.FORGED
    # A list, and not `any`: the time must not tell which secret or signature matched first.
    if True not in [_is_signed(profile, secret, signed) for secret in secrets]:
        return Authenticity.FORGED
    return Authenticity.GENUINE if _is_timely(profile, signed, now) else Authenticity.STALE


def sign(
    profile: Profile, secret: str, body: bytes, *, webhook_id: str, now: float
) -> dict[str, str]:
    """Return the headers with which the provider would sign a body, by their names in lower case.

    They are the signature, the time if one is signed, and the id if a header holds it.

    For a signature by public key, the secret is the secret key `whsk_…`. `webhook_id` is for
    profiles that have it in a header. The time is in seconds since the epoch.

    Raises:
        ValueError: the secret cannot sign, or not this body; the text says why, without either.
    """
    signed = SignedRequest(id=webhook_id, timestamp=str(int(now)), body=body)
    if not secret:
        raise ValueError("the secret is empty")
    if profile.id_end and profile.id_end in webhook_id:
        raise ValueError(
            f"the id contains {profile.id_end!r}, which ends it in what is signed: give another id"
        )
    if profile.form is Form.STANDARD:
        signature = _standard_signature(secret, signed)
    else:
        digest = _hmac(profile, secret, signed)
        text = digest.hex() if profile.encoding is Encoding.HEX else _base64(digest)
        signature = f"{profile.prefix}{text}"
        if profile.form is Form.PAIRS:
            signature = f"t={signed.timestamp},{profile.prefix}={text}"
    headers = {profile.signature_header: signature}
    if profile.timestamp_header:
        headers[profile.timestamp_header] = signed.timestamp
    if profile.id.startswith("header:"):
        headers[profile.id.removeprefix("header:")] = webhook_id
    return headers


def _is_signed(profile: Profile, secret: str, signed: SignedRequest) -> bool:
    if not secret:  # an HMAC with an empty key can be made by anybody
        return False
    if profile.form is not Form.STANDARD:
        expected: bytes | None = _hmac(profile, secret, signed)
    elif not signed.id or signed.seconds is None:
        return False
    elif secret.startswith(PUBLIC_KEY):
        return _is_signed_by_owner(secret, signed)
    else:
        expected = _standard_hmac(secret, signed)
    if expected is None:
        return False
    return True in [hmac.compare_digest(expected, each) for each in signed.signatures]


def _is_timely(profile: Profile, signed: SignedRequest, now: float) -> bool:
    if not profile.tolerance_seconds:
        return True
    at = signed.seconds
    return at is not None and abs(at - now) <= profile.tolerance_seconds


def _hmac(profile: Profile, secret: str, signed: SignedRequest) -> bytes:
    return hmac.new(secret.encode(), signed.content(profile.signed), sha256).digest()


SHARED_SECRET = "whsec_"  # noqa: S105
"""Prefix of a secret that provider and endpoint share. Standard Webhooks lets it be left out."""

PUBLIC_KEY = "whpk_"
"""Prefix of a public key. With one, a provider's signatures are verified but not made."""

SECRET_KEY = "whsk_"  # noqa: S105
"""Prefix of the secret key that belongs to a public one: 32 bytes of seed, and maybe the other."""

_SEED_BYTES = 32
"""Size of a seed, and of a public key."""
_REMEDY = (
    f"lock it in the requirements.txt of the function's folder ({explained_by('webhooks')}); on a "
    "workstation, run pip install 'once-consumer[webhooks]'"
)


def is_usable(profile: Profile, secret: str) -> bool:
    """Return whether a secret has the form that its scheme needs; most take any text."""
    if profile.form is not Form.STANDARD:
        return bool(secret)
    prefix = PUBLIC_KEY if secret.startswith(PUBLIC_KEY) else SHARED_SECRET
    try:
        key = base64.b64decode(secret.removeprefix(prefix), validate=True)
    except ValueError:
        return False
    return len(key) == _SEED_BYTES if prefix == PUBLIC_KEY else bool(key)


def _standard_signature(secret: str, request: SignedRequest) -> str:
    if secret.startswith(PUBLIC_KEY):
        raise ValueError("a public key (whpk_) cannot sign: give its secret key (whsk_)")
    if not secret.startswith(SECRET_KEY):
        signature = _standard_hmac(secret, request)
        if signature is None:
            raise ValueError("the secret is not base64 after whsec_, or the body is not UTF-8")
        return f"v1,{_base64(signature)}"
    with extra("webhooks", remedy=_REMEDY):
        from nacl.signing import SigningKey

    try:
        seed = base64.b64decode(secret.removeprefix(SECRET_KEY), validate=True)[:_SEED_BYTES]
        owner = SigningKey(seed)
    except ValueError:
        raise ValueError("the secret key is not base64 of 32 or 64 bytes after whsk_") from None
    return f"v1a,{_base64(owner.sign(request.content(STANDARD.signed)).signature)}"


def _standard_hmac(secret: str, request: SignedRequest) -> bytes | None:
    """Return the HMAC; None if the secret or the content cannot be used."""
    with extra("webhooks", remedy=_REMEDY):
        from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

    try:
        at = datetime.fromtimestamp(request.seconds or 0, UTC)
        text = Webhook(secret).sign(request.id, at, request.body.decode())
    except (ValueError, EmptyWebhookSecretError):
        return None
    return base64.b64decode(text.partition(",")[2])


def _is_signed_by_owner(key: str, request: SignedRequest) -> bool:
    with extra("webhooks", remedy=_REMEDY):
        from nacl.exceptions import CryptoError
        from nacl.signing import VerifyKey

    try:
        public = VerifyKey(base64.b64decode(key.removeprefix(PUBLIC_KEY), validate=True))
    except ValueError:
        return False
    content = request.content(STANDARD.signed)

    def is_valid(signature: bytes) -> bool:
        try:
            public.verify(content, signature)
        except CryptoError:
            return False
        return True

    return True in [is_valid(each) for each in request.public_signatures]


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


KEPT_SECONDS = 300
"""Time for which secrets stay in memory: a secret that was withdrawn is refused after that."""
REFRESH_SECONDS = 5
"""Shortest time between two readings of one secret, failed ones included: neither forged requests
nor an outage cause more of them."""
OUTAGE_SECONDS = 60 * 60
"""Time after `KEPT_SECONDS` for which secrets in memory count while they cannot be read again."""


class SecretsUnavailable(RetryableError):
    """No secret can be used that decides about a request. The text has no part of a secret.

    Remedy: store the endpoint's secret in Secrets Manager, and grant the ingress its reading;
    the provider sends again.
    """

    @property
    def summary(self) -> str:
        """The class and the text, for logs."""
        return f"{type(self).__name__}: {self}"


class Secrets(NamedTuple):
    """The secrets of an endpoint, by the version that they are in."""

    current: tuple[str, ...]
    previous: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Secrets(<{len(self.current)}>, <{len(self.previous)}>)"


@dataclass(slots=True)
class _Kept:
    """The last reading that succeeded, and the time of the last one at all, with its `fault`."""

    values: Secrets | None
    read_at: float
    tried_at: float
    fault: str


class SecretCache:
    """Secrets by endpoint: those of the current version and of the previous one.

    `arns` has the ARN of each endpoint's secret. The clock is in seconds since the epoch.
    """

    def __init__(self, client: Any, arns: Mapping[str, str], clock: Callable[[], float]) -> None:
        self._client = client
        self._arns = arns
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def of(self, endpoint: str, *, refreshed: bool = False) -> Secrets:
        """Return an endpoint's secrets; `refreshed` if those in memory did not verify a request.

        If they cannot be read again, those in memory count for another `OUTAGE_SECONDS`. They prove
        that a request is genuine, but not that it is forged: the secret may have been rotated.

        Raises:
            SecretsUnavailable: they cannot be read, and those in memory are too old, do not verify
                the request, or do not exist.
        """
        now = self._clock()
        kept = self._kept.get(endpoint) or _Kept(None, now, now - REFRESH_SECONDS, "not read yet")
        hurried = refreshed or kept.fault
        if now - kept.tried_at >= (REFRESH_SECONDS if hurried else KEPT_SECONDS):
            try:
                kept = _Kept(self._versions(endpoint), now, now, "")
            except SecretsUnavailable as error:
                kept = _Kept(kept.values, kept.read_at, now, str(error))
            self._kept[endpoint] = kept
        is_recent = now - kept.read_at < KEPT_SECONDS + OUTAGE_SECONDS
        if kept.values is None or (kept.fault and (refreshed or not is_recent)):
            raise SecretsUnavailable(kept.fault)
        return kept.values

    def _versions(self, endpoint: str) -> Secrets:
        arn = self._arns.get(endpoint)
        if arn is None:
            raise SecretsUnavailable(f"the settings have no secret for endpoint {endpoint!r}")
        current = self._version(arn, "AWSCURRENT")
        if not current:
            raise SecretsUnavailable(
                f"the secret of endpoint {endpoint!r} has no signing secret: put it as plain text, "
                "one secret a line, and not as JSON or binary"
            )
        return Secrets(current, self._version(arn, "AWSPREVIOUS"))

    def _version(self, arn: str, stage: str) -> tuple[str, ...]:
        """Return the secrets in a version; none of JSON, which the console suggests."""
        try:
            answer = self._client.get_secret_value(SecretId=arn, VersionStage=stage)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return ()  # never written, or never rotated
            raise SecretsUnavailable(summary_of(error)) from None
        except BotoCoreError as error:
            raise SecretsUnavailable(summary_of(error)) from None
        text = _AROUND.sub("", str(answer.get("SecretString", "")))
        if text.startswith("{"):
            return ()
        return tuple(dict.fromkeys(filter(None, map(_secret_in, text.splitlines()))))


_AROUND = re.compile(r"^[\s\u200b\u2060\ufeff]+|[\s\u200b\u2060\ufeff]+$")
"""Spaces around a text, also those that are invisible: a byte order mark, for example."""
_COPIED = re.compile(rf"""["'`]?(?:v1a?,)?((?:{SHARED_SECRET}|{PUBLIC_KEY})[^"'`,]*)["'`,]*""")
"""A secret of Standard Webhooks as pages and files show it: quoted, or after its version."""


def _secret_in(line: str) -> str:
    """Return the secret in a line, without characters that only copying can have added.

    A free text, such as GitHub's, may have a comma or quotes of its own, and keeps them.
    """
    secret = _AROUND.sub("", line)
    copied = _COPIED.fullmatch(secret)
    return copied[1] if copied else secret
