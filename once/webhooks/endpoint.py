"""Endpoints and provider profiles: how a provider signs, identifies and repeats its webhooks.

With the settings of the ingress that takes them. Synthesis reads endpoints and checks them as well,
so that this module imports no package of AWS or of a provider.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, Self

from once.names import EVENT_TYPE, EVENT_TYPE_RULE
from once.settings import CommitSettings, register_type

MINUTE, HOUR, DAY = 60, 60 * 60, 24 * 60 * 60
ENDPOINT_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
"""Also of a profile. An endpoint's name is its path, and part of the dedup keys of its webhooks."""

TEXT_CHARACTERS = 1024
"""The most of a webhook's id or type that a capture keeps: no provider documents as much."""

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
        other_headers: the beginning of the headers' names, and the one that other senders use
            instead.
        tolerance_seconds: the most that a signed time may differ from the clock, in either
            direction; 0 if no time is signed.
        id: the place of the webhook's id; empty for the canonical form of the body.
        type: the places of the webhook's type; the first one that has a value counts.
        type_in_key: whether the provider sends equal bodies as webhooks of several types, which
            are then several webhooks. Otherwise another type for a known body is a conflict.
        volatile: top-level fields of the body that may differ between two deliveries.
        kept_headers: further headers that a capture keeps, in lower case. It always keeps those
            with the signatures, time, id and type, and those of `once.webhooks.captured_webhook`.
        challenge: for a handshake, the value of the body's field `type`, and the field to return.
        form_field: the field that holds the JSON if a body is a form; empty if none is one. The
            body itself tells: an object or array begins with a bracket, and a form never does.
        retry_seconds: the longest time after which the provider sends a webhook again, by itself or
            because a person asks it to.
        answer_seconds: the time after which the provider gives up waiting for an answer; 10 if it
            documents none.
        body_bytes: the largest body that is read, unless the endpoint says another.
    """

    name: str
    signature_header: str
    signed: str = "{body}"
    form: Form = Form.PLAIN
    prefix: str = ""
    encoding: Encoding = Encoding.HEX
    timestamp_header: str = ""
    other_headers: tuple[str, str] | None = None
    tolerance_seconds: int = 0
    id: str = ""
    type: tuple[str, ...] = ()
    type_in_key: bool = False
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

    @property
    def id_end(self) -> str:
        """The character that ends the id in the signed bytes; empty if they contain no id.

        With this character in an id, they could be cut anew into another id, time and body.
        """
        before, found, after = self.signed.partition("{id}")
        return (after[:1] if "{body}" in after else before[-1:]) if found else ""

    def as_sent(self, headers: Mapping[str, str]) -> "Profile":
        """Return the profile with the names of headers that a request uses.

        The header with the signatures decides. A request is never read from headers of both names.
        """
        if self.other_headers is None or self.signature_header in headers:
            return self
        first, other = self.other_headers
        sent = replace(
            self,
            signature_header=self.signature_header.replace(first, other),
            timestamp_header=self.timestamp_header.replace(first, other),
            id=self.id.replace(first, other),
        )
        return sent if sent.signature_header in headers else self

    @property
    def has_signed_type(self) -> bool:
        """Whether the signature covers the type; True for a provider without types."""
        return all(place.startswith("body:") for place in self.type)


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
    retry_seconds=30 * DAY,
)
"""Stripe.

Signature: docs.stripe.com/webhooks/signature. Each attempt is signed anew with its own time;
while a secret is rolled, the header has one `v1` for each. The tolerance of Stripe's packages is
five minutes. `v0` is a test scheme and never counts.
Repetition: docs.stripe.com/webhooks (three days, automatically), and
docs.stripe.com/cli/events/resend (events of the last 30 days, by hand). `pending_webhooks` counts
the endpoints that have not answered yet. No time to answer is documented.
"""

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
    retry_seconds=7 * DAY,
    body_bytes=MAX_REQUEST_BYTES,
)
"""GitHub.

Signature: docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries. Only the body is
signed, so that id and type can be changed by anybody who has seen a request. The fields of a body
depend on its type, so that equal bodies of two types are not expected.
Repetition: docs.github.com/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks.
Never automatic; by hand for three days, on Enterprise Server for seven, and with the same
`X-GitHub-Delivery`. Best practices name 10 seconds to answer. Bodies have up to 25 MB, of which
Lambda takes less; a body is JSON, or a form with the JSON in `payload`.
"""

SHOPIFY = Profile(
    name="shopify",
    signature_header="x-shopify-hmac-sha256",
    encoding=Encoding.BASE64,
    id="header:x-shopify-webhook-id",
    type=("header:x-shopify-topic",),
    type_in_key=True,
    kept_headers=(
        *("x-shopify-shop-domain", "x-shopify-triggered-at", "x-shopify-event-id"),
        *("x-shopify-api-version", "x-shopify-name", "x-shopify-sub-topic"),
    ),
    retry_seconds=4 * HOUR,
    answer_seconds=5,
    body_bytes=1024 * 1024,
)
"""Shopify.

Signature: shopify.dev/docs/apps/build/webhooks/verify-deliveries. Only the body is signed, with
the app's client secret; after a rotation the old one is used for up to an hour. The body is the
resource, and the topic alone says what happened to it: `orders/create` and `orders/paid` of one
order can have equal bodies.
Repetition: shopify.dev/changelog/updates-to-webhook-retry-mechanism. Eight times in four hours,
with the original payload. `X-Shopify-Webhook-Id` is the delivery's id and stays the same;
`X-Shopify-Event-Id` is shared by the webhooks of one action. Five seconds to answer.
"""

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
    retry_seconds=1 * DAY,
    answer_seconds=3,
)
"""Slack: the Events API, and interactions, which are forms without an id.

Signature: docs.slack.dev/authentication/verifying-requests-from-slack, with five minutes of
tolerance. Handshake: docs.slack.dev/reference/events/url_verification.
Repetition: docs.slack.dev/apis/events-api. At once, after one and after five minutes, with the
same `event_id`; a day leaves room for apps that let failed events be repeated for longer. Three
seconds to answer.
"""

STANDARD = Profile(
    name="standard",
    signature_header="webhook-signature",
    signed="{id}.{timestamp}.{body}",
    form=Form.STANDARD,
    encoding=Encoding.BASE64,
    timestamp_header="webhook-timestamp",
    other_headers=("webhook-", "svix-"),
    tolerance_seconds=5 * MINUTE,
    id="header:webhook-id",
    type=("body:type",),
    retry_seconds=4 * DAY,
    answer_seconds=15,
)
"""Standard Webhooks: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md.

Senders choose their schedule; the one in the specification ends after 75.6 hours, and it names 15
to 30 seconds to answer. Senders that use Svix name the headers `svix-id`, `svix-timestamp` and
`svix-signature` (docs.svix.com/receiving/verifying-payloads/how-manual).
"""

PROFILES = {each.name: each for each in (STRIPE, GITHUB, SHOPIFY, SLACK, STANDARD)}


def hmac_profile(
    name: str,
    *,
    signature_header: str,
    retry_seconds: int,
    prefix: str = "",
    encoding: Encoding = Encoding.HEX,
    signed: str = "{body}",
    timestamp_header: str = "",
    tolerance_seconds: int | None = None,
    id: str = "",  # noqa: A002
    type: tuple[str, ...] = (),  # noqa: A002
    type_in_key: bool = False,
    volatile: tuple[str, ...] = (),
    form_field: str = "",
    answer_seconds: int = 10,
    body_bytes: int = 128 * 1024,
) -> Profile:
    """Return the profile of a provider with one HMAC-SHA256 in one header.

    The arguments are attributes of `Profile`. Names of headers may be in any case; if a time is
    signed, its tolerance is five minutes by default. Without an id, the body is the identity.

    Raises:
        ValueError: the rules contradict each other; each fault is a line of the text.
    """
    if tolerance_seconds is None:
        tolerance_seconds = 5 * MINUTE if "{timestamp}" in signed else 0
    profile = Profile(
        name=name,
        signature_header=signature_header.lower(),
        signed=signed,
        form=Form.PLAIN,
        prefix=prefix,
        encoding=encoding,
        timestamp_header=timestamp_header.lower(),
        tolerance_seconds=tolerance_seconds,
        id=_lower(id),
        type=tuple(map(_lower, type)),
        type_in_key=type_in_key,
        volatile=volatile,
        form_field=form_field,
        retry_seconds=retry_seconds,
        answer_seconds=answer_seconds,
        body_bytes=body_bytes,
    )
    if faults := profile_faults(profile):
        raise ValueError("\n".join(faults))
    return profile


def _lower(place: str) -> str:
    """Return a place with a header's name in lower case; paths keep their case."""
    return place.lower() if place.lower().startswith("header:") else place


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path that one account of a provider sends its webhooks to.

    The endpoint tells whose webhook it is: a payload is never asked.

    Attributes:
        name: the path; `stripe` takes requests to `/stripe`.
        profile: the provider's rules.
        types: the provider's types that are handed on as events. Webhooks of other types are
            captured only.
        prefix: the first part of the types of its events; by default the profile's name.
        body_bytes: the largest body that is read; 0 for the profile's.
        trusts_id: whether an id that is not signed tells two webhooks with equal bodies apart. By
            default the body alone does: otherwise anybody who has seen a request could send it
            again under another id.
    """

    name: str
    profile: Profile
    types: tuple[str, ...] = ()
    prefix: str = ""
    body_bytes: int = 0
    trusts_id: bool = False

    @property
    def source(self) -> str:
        """The `source` in the dedup keys of its webhooks."""
        return f"/webhooks/{self.name}"

    @property
    def limit(self) -> int:
        """The largest body that is read, in bytes."""
        return self.body_bytes or self.profile.body_bytes

    @property
    def event_types(self) -> tuple[str, ...]:
        """The types of the events that it hands on."""
        return tuple(map(self.event_type, self.types))

    def event_type(self, webhook_type: str) -> str:
        """Return the type of the event for a webhook's type, such as `stripe.charge.refunded`."""
        return f"{self.prefix or self.profile.name}.{webhook_type}"

    def to_builtins(self) -> dict[str, Any]:
        """Return the values from which `of_builtins` makes an equal endpoint."""
        given = {name: value for name, value in asdict(self).items() if value}
        known = PROFILES.get(self.profile.name)
        return given | {"profile": self.profile.name if known == self.profile else given["profile"]}

    @classmethod
    def of_builtins(cls, given: Mapping[str, Any]) -> Self:
        """Read what `to_builtins` returned, also after it was JSON.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        profile = given["profile"]
        if isinstance(profile, str):
            return cls(**{**_tuples(given), "profile": PROFILES[profile]})
        forms = {"form": Form(profile["form"]), "encoding": Encoding(profile["encoding"])}
        return cls(**{**_tuples(given), "profile": Profile(**{**_tuples(profile), **forms})})


def _tuples(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


register_type(
    tuple[Endpoint, ...],
    lambda given: tuple(map(Endpoint.of_builtins, given)),
    lambda endpoints: [each.to_builtins() for each in endpoints],
)


CAPTURES = "captures"
"""Name of the table of captures in `WebhookSettings.tables`."""

OBJECTS = "webhooks/"
"""Prefix of the objects with large bodies, in the claim-check bucket."""


class WebhookSettings(CommitSettings, frozen=True, kw_only=True):
    """The deployment of a webhook ingress. Its table of captures is `tables["captures"]`."""

    endpoints: Annotated[tuple[Endpoint, ...], "the endpoints"]
    secrets: Annotated[
        Mapping[str, str],
        "the ARN of the secret of each endpoint, by the endpoint's name. The value is one secret a "
        "line; its previous version counts as well",
    ]
    capture_seconds: Annotated[int, "the time for which a capture is kept"]


_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
"""A header's name (RFC 9110, `token`) in lower case, as requests are read."""

_PLACE = re.compile(r"header:(?P<header>.+)|body:[^.]+(\.[^.]+)*")
_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = {"body", "timestamp", "id"}


def endpoint_faults(endpoint: Endpoint) -> Iterator[str]:
    """Yield every fault of an endpoint and its profile, without the endpoint's name."""
    if not ENDPOINT_NAME.fullmatch(endpoint.name):
        yield (
            f"{endpoint.name!r} is not a valid name, which is also the endpoint's path: use up to "
            "40 lower-case letters, digits and hyphens, beginning with a letter"
        )
    if not 0 <= endpoint.body_bytes <= MAX_REQUEST_BYTES:
        yield _size_fault(endpoint.body_bytes)
    if endpoint.trusts_id and (not endpoint.profile.id or endpoint.profile.has_signed_id):
        yield "`trusts_id` has no effect without an id that is not signed: leave it out"
    if endpoint.types and not endpoint.profile.type:
        yield "its profile names no place for the type, so its webhooks have none: set `type` there"
    for kind in sorted({each for each in endpoint.types if endpoint.types.count(each) > 1}):
        yield f"the type {kind!r} is listed twice: list each type once"
    for kind in endpoint.types:
        event_type = endpoint.event_type(kind)
        if not (EVENT_TYPE.fullmatch(kind) and EVENT_TYPE.fullmatch(event_type)):
            yield (
                f"{event_type!r} is not a valid event type: a queue selects types literally, "
                f"{EVENT_TYPE_RULE}"
            )
    yield from profile_faults(endpoint.profile)


def profile_faults(profile: Profile) -> list[str]:
    """Return every fault of a profile. Its name stands first, since endpoints can share it."""
    checks = (_name_faults, _signed_faults, _time_faults, _form_faults)
    return [f"profile {profile.name}: {fault}" for check in checks for fault in check(profile)]


def _name_faults(profile: Profile) -> Iterator[str]:
    if not ENDPOINT_NAME.fullmatch(profile.name):
        yield (
            "its name is the first part of its event types: use up to 40 lower-case letters, "
            "digits and hyphens, beginning with a letter"
        )
    for header in (profile.signature_header, *filter(None, [profile.timestamp_header])):
        if not _HEADER.fullmatch(header):
            yield f"{header!r} is not a header name: write it in lower case, without a colon"
    for place in filter(None, (profile.id, *profile.type)):
        found = _PLACE.fullmatch(place)
        if not found or (found["header"] and not _HEADER.fullmatch(found["header"])):
            yield (
                f"{place!r} is not a place: write `header:<name in lower case>`, or `body:<path>` "
                "with dots for nesting"
            )
    if "" in profile.type:
        yield "an empty text is not a place for the type: leave it out"
    if profile.type_in_key and profile.has_signed_type:
        yield "`type_in_key` has no effect without a type that is in a header: leave it out"


def _signed_faults(profile: Profile) -> Iterator[str]:
    fields = _FIELD.findall(profile.signed)
    if fields.count("body") != 1:
        yield "`signed` needs {body} once: a signature that leaves the body out proves nothing"
    if {*fields} - _FIELDS or "{" in _FIELD.sub("", profile.signed).replace("}", "{"):
        yield "`signed` is made of {body}, {timestamp}, {id} and text without braces"
    if max(fields.count("timestamp"), fields.count("id")) > 1:
        yield "`signed` has a field twice: name each once"
    if "id" in fields and not profile.id.startswith("header:"):
        yield "`signed` has {id}, which is the value of a header: set `id` to `header:<name>`"
    if re.search(r"\}\{id\}|\{id\}\{", profile.signed):
        yield (
            "`signed` joins {id} to another field without a separator: the signed bytes could be "
            "cut anew into another id and body, so that a provider of this scheme is not supported"
        )


def _time_faults(profile: Profile) -> Iterator[str]:
    is_signed = "{timestamp}" in profile.signed
    in_pairs = profile.form is Form.PAIRS
    if profile.tolerance_seconds < 0:
        yield "`tolerance_seconds` counts in both directions: it cannot be negative"
    if profile.tolerance_seconds and not is_signed:
        yield "`tolerance_seconds` without {timestamp} in `signed`: anybody could change that time"
    if is_signed and not profile.tolerance_seconds:
        yield "`signed` has {timestamp} without a tolerance: set `tolerance_seconds`, such as 300"
    if is_signed and not in_pairs and not profile.timestamp_header:
        yield "`signed` has {timestamp}, but no header contains it: set `timestamp_header`"
    if profile.timestamp_header and (in_pairs or not is_signed):
        yield "`timestamp_header` is not read: the time is in the pairs, or not in `signed`"


def _form_faults(profile: Profile) -> Iterator[str]:
    if profile.form is Form.PAIRS and not profile.prefix:
        yield "the form `pairs` needs the name of the signature: set `prefix`, such as v1"
    if profile.form is Form.STANDARD and (
        profile.signed != STANDARD.signed or profile.encoding is not Encoding.BASE64
    ):
        yield (
            f"the form `standard` signs {STANDARD.signed} in base64: use another form for other "
            "schemes"
        )
    if profile.challenge is not None and not all(profile.challenge):
        yield "`challenge` needs the value of the body's `type`, and the field to return"
    if profile.retry_seconds <= 0:
        yield "`retry_seconds` must be positive: set the time for which the provider repeats"
    if profile.answer_seconds <= 0:
        yield "`answer_seconds` must be positive: set the time that the provider waits"
    if not 0 < profile.body_bytes <= MAX_REQUEST_BYTES:
        yield _size_fault(profile.body_bytes)


def _size_fault(size: int) -> str:
    return (
        f"`body_bytes` is {size}: Lambda takes requests of 6 MB, in which a body may be base64; "
        f"set at most {MAX_REQUEST_BYTES}"
    )
