"""Provider profiles: how each provider signs, identifies and repeats its webhooks, as data.

Standard library only: synthesis reads the profiles as well.
"""

from dataclasses import dataclass
from enum import StrEnum

MINUTE, HOUR, DAY = 60, 60 * 60, 24 * 60 * 60
MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Largest body of any endpoint. Lambda takes requests of 6 MB, in which a body may be base64."""


class Form(StrEnum):
    """The form of the header that holds the signatures."""

    PLAIN = "plain"
    """One signature, after the profile's `prefix`."""
    PAIRS = "pairs"
    """Pairs such as `t=1,v1=a,v1=b`: a time, and signatures under the name `prefix`."""
    STANDARD = "standard"
    """Standard Webhooks: versions with their signatures, such as `v1,a v1a,b`."""


class Encoding(StrEnum):
    """The encoding of a signature's bytes."""

    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A provider's rules. A place is `header:<name>` or `body:<path>`; a path has dots for nesting.

    Attributes:
        name: the provider; first part of the types of its events unless the endpoint says another.
        signature_header: the header with the signatures, in lower case.
        signed: what is signed, made of `{body}`, `{timestamp}` and `{id}`.
        form: the form of the header with the signatures.
        prefix: the text before a signature, or the name of its pair.
        encoding: the encoding of a signature.
        timestamp_header: the header with the time of sending, in seconds since the epoch; empty if
            no time is signed, or if it is in the header with the signatures.
        tolerance_seconds: the most that a signed time may differ from the clock, in either
            direction; 0 if no time is signed.
        id: the place of the webhook's id; empty for the canonical form of the body.
        type: the places of the webhook's type; the first one that has a value counts.
        volatile: top-level fields of the body that may differ between two deliveries.
        kept_headers: further headers that a capture keeps, in lower case. It always keeps those
            with the signatures, time, id and type, and those of `once.webhooks.capture`.
        challenge: for a handshake, the value of the body's field `type`, and the field to return.
        form_field: the field of a form that holds the JSON, for bodies that are forms.
        retry_seconds: the longest time after which the provider sends a webhook again.
        answer_seconds: the time after which the provider gives up waiting for an answer.
        body_bytes: the largest body that is read, unless the endpoint says another.
    """

    name: str
    signature_header: str
    signed: str = "{body}"
    form: Form = Form.PLAIN
    prefix: str = ""
    encoding: Encoding = Encoding.HEX
    timestamp_header: str = ""
    tolerance_seconds: int = 0
    id: str = ""
    type: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    kept_headers: tuple[str, ...] = ()
    challenge: tuple[str, str] | None = None
    form_field: str = ""
    retry_seconds: int
    answer_seconds: int = 10
    body_bytes: int = 128 * 1024

    @property
    def has_signed_id(self) -> bool:
        """Whether the signature covers the id, so that nobody can change it."""
        return self.id.startswith("body:") or (bool(self.id) and "{id}" in self.signed)


STRIPE = Profile(
    name="stripe",
    signature_header="stripe-signature",
    signed="{timestamp}.{body}",
    form=Form.PAIRS,
    prefix="v1",
    tolerance_seconds=5 * MINUTE,
    id="body:id",
    type=("body:type",),
    volatile=("pending_webhooks",),
    retry_seconds=3 * DAY,
)
"""Stripe. It signs each attempt anew, and repeats for up to three days."""

GITHUB = Profile(
    name="github",
    signature_header="x-hub-signature-256",
    prefix="sha256=",
    id="header:x-github-delivery",
    type=("header:x-github-event",),
    kept_headers=(
        *("x-github-hook-id", "x-github-hook-installation-target-id", "x-hub-signature"),
        *("x-github-hook-installation-target-type", "x-github-enterprise-host"),
    ),
    form_field="payload",
    retry_seconds=3 * DAY,
    body_bytes=MAX_REQUEST_BYTES,
)
"""GitHub. Only the body is signed; a person can have a delivery of three days repeated."""

SHOPIFY = Profile(
    name="shopify",
    signature_header="x-shopify-hmac-sha256",
    encoding=Encoding.BASE64,
    id="header:x-shopify-webhook-id",
    type=("header:x-shopify-topic",),
    kept_headers=(
        *("x-shopify-shop-domain", "x-shopify-triggered-at", "x-shopify-event-id"),
        *("x-shopify-api-version", "x-shopify-name", "x-shopify-sub-topic"),
    ),
    retry_seconds=4 * HOUR,
    answer_seconds=5,
    body_bytes=1024 * 1024,
)
"""Shopify. Only the body is signed; eight attempts in four hours."""

SLACK = Profile(
    name="slack",
    signature_header="x-slack-signature",
    signed="v0:{timestamp}:{body}",
    prefix="v0=",
    timestamp_header="x-slack-request-timestamp",
    tolerance_seconds=5 * MINUTE,
    id="body:event_id",
    type=("body:event.type", "body:type"),
    kept_headers=("x-slack-retry-num", "x-slack-retry-reason"),
    challenge=("url_verification", "challenge"),
    form_field="payload",
    retry_seconds=1 * HOUR,
    answer_seconds=3,
)
"""Slack's Events API. Three attempts within an hour; an address is confirmed by a handshake."""

STANDARD = Profile(
    name="standard",
    signature_header="webhook-signature",
    signed="{id}.{timestamp}.{body}",
    form=Form.STANDARD,
    encoding=Encoding.BASE64,
    timestamp_header="webhook-timestamp",
    tolerance_seconds=5 * MINUTE,
    id="header:webhook-id",
    type=("body:type",),
    retry_seconds=3 * DAY,
)
"""Standard Webhooks, whose senders choose their own schedule."""

PROFILES = {each.name: each for each in (STRIPE, GITHUB, SHOPIFY, SLACK, STANDARD)}


def hmac_profile(
    name: str,
    *,
    signature_header: str,
    retry_seconds: int,
    **rules: object,
) -> Profile:
    """Return a profile of a provider that signs with HMAC-SHA256; see `Profile` for its rules."""
    given: dict[str, object] = {"name": name, "signature_header": signature_header.lower(), **rules}
    return Profile(retry_seconds=retry_seconds, **given)  # type: ignore[arg-type]
