"""Webhook requests: those of four providers, the plan of a run, and a sender with their names.

A plan has genuine attempts, altered copies, forgeries, and Slack's handshake, drawn with a seed for
each simulated day.
"""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count, cycle, islice
from random import Random
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from demo.signers import SIGNERS
from emulator.connection import Connection

WEBHOOKS = 1000
RESENT_SHARE = 0.4
FORGED_SHARE = 0.1
REPLAYED = 20
ALTERED = 90
HANDSHAKES = 4
HOURS_BEFORE = (0, 4, 20, 48)
"""Simulated time before each wave, in hours: the last one is three days after the first."""

_FIRST_SENT = (0.5, 0.3, 0.2)
"""Share of the webhooks that are new in each wave; the last wave has none."""


class Provider(StrEnum):
    """A provider; the value is the path of its endpoint."""

    STRIPE = "stripe"
    GITHUB = "github"
    SHOPIFY = "shopify"
    STANDARD = "standard"


TYPES = {
    Provider.STRIPE: "invoice.paid",
    Provider.GITHUB: "push",
    Provider.SHOPIFY: "orders/paid",
    Provider.STANDARD: "ticket.opened",
}
"""The type that each provider sends."""

_ID_PREFIXES = {
    Provider.STRIPE: "evt_",
    Provider.GITHUB: "delivery-",
    Provider.SHOPIFY: "b54557e4-",
    Provider.STANDARD: "msg_",
}
SIGNS_TIME = tuple(each for each in Provider if SIGNERS[each].signs_time)
"""The providers that sign the time of each attempt."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
SLACK = "slack"
_WRONG_SECRET = "whsec_" + base64.b64encode(b"the secret of another account").decode()
_THREADS = 4
_TIMEOUT_SECONDS = 30.0
_OUTSIDE_SECONDS = 600
"""Twice the tolerance of the providers that sign a time."""


@dataclass(frozen=True, slots=True)
class SampleWebhook:
    """A webhook as its provider wrote it.

    Attributes:
        provider: the provider.
        serial: a text in the data by which the audit recognizes it.
        id: the provider's id: in the data (Stripe) or in a header.
        data: the JSON object.
        is_form: whether the body is a form with the JSON in its field `payload`. GitHub can be
            configured to send it.
    """

    provider: Provider
    serial: str
    id: str
    data: dict[str, Any]
    is_form: bool = False

    @property
    def content_type(self) -> str:
        """The value of the header Content-Type."""
        return FORM if self.is_form else JSON

    @property
    def body(self) -> bytes:
        """The bytes of the body, in the provider's own writing."""
        if self.provider is Provider.STRIPE:
            return self._written(indent=2)
        return self._written(ensure_ascii=False, separators=(",", ":"))

    @property
    def reserialized(self) -> bytes:
        """Other bytes with the same data, as a proxy that parses and writes the body makes them."""
        return self._written(sort_keys=True, separators=(", ", ":"))

    def _written(self, **form: Any) -> bytes:
        written = json.dumps(self.data, **form)
        return urlencode({"payload": written}).encode() if self.is_form else written.encode()

    @property
    def changed(self) -> Self:
        """The webhook with another amount."""
        return replace(self, data={**self.data, "amount": self.data["amount"] + 1})

    def attempt(self, number: int) -> Self:
        """Return the webhook as its provider sends it for the nth time, counted from 0.

        Stripe writes into each attempt how many endpoints have not taken the event yet.
        """
        if self.provider is not Provider.STRIPE:
            return self
        return replace(self, data={**self.data, "pending_webhooks": max(1, 3 - number)})

    @classmethod
    def sample(cls, provider: Provider, serial: str, amount: int, *, is_form: bool = False) -> Self:
        """Return a webhook; its data has characters that a careless copy would change."""
        webhook_id = f"{_ID_PREFIXES[provider]}{serial}"
        data: dict[str, Any] = {"serial": serial, "amount": amount, "note": "Zoë’s café — 3 × ½\t✓"}
        if provider is Provider.STRIPE:
            data |= {"id": webhook_id, "object": "event", "pending_webhooks": 3}
        if provider in {Provider.STRIPE, Provider.STANDARD}:
            data |= {"type": TYPES[provider]}
        return cls(provider, serial, webhook_id, data, is_form)


def signed_headers(webhook: SampleWebhook, secret: str, at: int) -> dict[str, str]:
    """Return the headers of one attempt, signed at a time in seconds since the epoch."""
    named = {"webhook_id": webhook.id, "kind": TYPES[webhook.provider]}
    signed = SIGNERS[webhook.provider].headers(secret, webhook.body, at, **named)
    return {"content-type": webhook.content_type, **signed}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A POST request: its path, headers and body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class Trick(StrEnum):
    """A way to forge a request, or to send a genuine one at the wrong time."""

    WRONG_SECRET = "wrong-secret"  # noqa: S105
    UNSIGNED = "unsigned"
    CHANGED_BODY = "changed-body"
    RESERIALIZED = "reserialized"
    TOO_OLD = "too-old"
    IN_FUTURE = "in-future"


NEEDS_GENUINE = (Trick.CHANGED_BODY, Trick.RESERIALIZED)
"""These take a webhook that is sent as well; the others have a webhook of their own."""
NEEDS_TIME = (Trick.TOO_OLD, Trick.IN_FUTURE)
"""These are of providers that sign a time."""


@dataclass(frozen=True, slots=True)
class Genuine:
    """An attempt of a provider.

    `other_id` replays the request of a provider that does not sign its id under a new one: nobody
    can tell it from a genuine request, and it must not become a second event.
    """

    webhook: SampleWebhook
    number: int = 0
    other_id: str = ""

    @property
    def sent(self) -> SampleWebhook:
        """The webhook as this attempt writes it."""
        return self.webhook.attempt(self.number)

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request, signed at a time in seconds since the epoch."""
        sent = replace(self.sent, id=self.other_id) if self.other_id else self.sent
        headers = signed_headers(sent, secrets[sent.provider], int(now))
        return HttpRequest(f"/{sent.provider}", headers, sent.body)


@dataclass(frozen=True, slots=True)
class Forged:
    """A request that must be refused."""

    webhook: SampleWebhook
    trick: Trick

    @property
    def sent(self) -> SampleWebhook:
        """The webhook with the data of the forged body."""
        return self.webhook.changed if self.trick is Trick.CHANGED_BODY else self.webhook

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request."""
        webhook, trick = self.webhook, self.trick
        secret = _WRONG_SECRET if trick is Trick.WRONG_SECRET else secrets[webhook.provider]
        headers = signed_headers(webhook, secret, int(now) + _SHIFTS.get(trick, 0))
        if trick is Trick.UNSIGNED:
            headers.pop(SIGNERS[webhook.provider].signature)
        reserialized = trick is Trick.RESERIALIZED
        body = webhook.reserialized if reserialized else self.sent.body
        return HttpRequest(f"/{webhook.provider}", headers, body)


@dataclass(frozen=True, slots=True)
class Altered:
    """A copy that somebody sends of a genuine request, before the provider's own.

    Its signature is right, since only headers differ that the provider does not sign.

    Attributes:
        webhook: the webhook.
        type: another type in the header; empty if only the content type differs.
    """

    webhook: SampleWebhook
    type: str = ""

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request, signed at a time in seconds since the epoch."""
        headers = signed_headers(self.webhook, secrets[self.webhook.provider], int(now))
        headers["content-type"] = JSON if self.webhook.is_form else FORM
        if self.type:
            headers[SIGNERS[self.webhook.provider].type] = self.type
        return HttpRequest(f"/{self.webhook.provider}", headers, self.webhook.body)


@dataclass(frozen=True, slots=True)
class Handshake:
    """Slack's question whether an address is the user's; the answer is the challenge."""

    challenge: str

    def request(self, secrets: Mapping[str, str], now: float) -> HttpRequest:
        """Return the request, signed at a time in seconds since the epoch."""
        body = json.dumps({"type": "url_verification", "challenge": self.challenge}).encode()
        signed = SIGNERS[SLACK].headers(secrets[SLACK], body, now)
        return HttpRequest(f"/{SLACK}", {"content-type": JSON, **signed}, body)


Delivery = Genuine | Altered | Forged | Handshake
_SHIFTS = {Trick.TOO_OLD: -_OUTSIDE_SECONDS, Trick.IN_FUTURE: _OUTSIDE_SECONDS}


@dataclass(frozen=True, slots=True)
class Answered:
    """A request and its answer.

    Attributes:
        delivery: the delivery that the request belongs to.
        body: the bytes that were sent.
        status: the status of the answer; 0 if there was none.
        text: the body of the answer.
        seconds: the time from the request to the answer.
    """

    delivery: Delivery
    body: bytes
    status: int
    text: str
    seconds: float

    @property
    def is_settled(self) -> bool:
        """Whether the sender sends it no more."""
        if isinstance(self.delivery, Handshake):
            return (self.status, self.text) == (200, self.delivery.challenge)
        if isinstance(self.delivery, Genuine):
            return 200 <= self.status < 300
        return 200 <= self.status < 500  # a killed function gives no answer of its own


class Sender:
    """Sends deliveries in the name of their providers.

    Args:
        aws: the AWS that answers for the function URL.
        url: the function URL. Its host name goes into the header Host, since the embedded AWS has
            one address.
        secrets: the secret of each endpoint; a change counts from the next request.

    Attributes:
        posted: about how many requests it has sent.
    """

    def __init__(self, aws: Connection, url: str, secrets: Mapping[str, str]) -> None:
        self._port = aws.port
        self._address = urlsplit(aws.endpoint).hostname or ""
        self._host = urlsplit(url).netloc
        self._trust = ssl.create_default_context(cafile=str(aws.certificate))
        self._secrets = secrets
        self._idle: list[http.client.HTTPSConnection] = []
        self.posted = 0

    def send(
        self, deliveries: Sequence[Delivery], midway: Callable[[], object] | None = None
    ) -> list[Answered]:
        """Send deliveries, several at a time, and return the answers in their order.

        Args:
            deliveries: the deliveries, each signed when it is sent.
            midway: called by one thread after half of them, while the others go on.
        """

        def send(number: int, delivery: Delivery) -> Answered:
            if midway is not None and number == len(deliveries) // 2:
                midway()
            request = delivery.request(self._secrets, time.time())
            started = time.perf_counter()
            status, text = self.post(request)
            return Answered(delivery, request.body, status, text, time.perf_counter() - started)

        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(send, count(), deliveries))

    def post(self, request: HttpRequest) -> tuple[int, str]:
        """Send a request; return status and body of the answer, 0 and nothing if there is none."""
        self.posted += 1
        try:
            connection = self._idle.pop()  # no other thread uses it
        except IndexError:
            connection = http.client.HTTPSConnection(
                self._address, self._port, timeout=_TIMEOUT_SECONDS, context=self._trust
            )
        headers = {**request.headers, "host": self._host}
        try:
            connection.request("POST", request.path, request.body, headers)
            answer = connection.getresponse()
            found = answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0, ""
        self._idle.append(connection)
        return found

    def close(self) -> None:
        """Close its connections."""
        while self._idle:
            self._idle.pop().close()


@dataclass(frozen=True, slots=True)
class WebhookPlan:
    """The requests to send.

    Attributes:
        webhooks: the genuine webhooks, once each.
        resent: how many of them are sent again.
        forged: the requests that must be refused.
        replayed: how many requests come again under an id that is not signed.
        altered: copies with other headers that are not signed, sent before the genuine webhook.
        handshakes: Slack's handshakes.
        waves: all requests, those of each simulated time in the order of sending.
    """

    webhooks: Sequence[SampleWebhook]
    resent: int
    forged: Sequence[Forged]
    replayed: int
    altered: Sequence[Altered]
    handshakes: Sequence[Handshake]
    waves: Sequence[Sequence[Delivery]]

    @classmethod
    def draw(cls, random: Random) -> Self:
        """Return a plan."""
        webhooks = [_sample(random, f"w-{n:04}") for n in range(WEBHOOKS)]
        first = dict(zip((w.serial for w in webhooks), _first_waves(), strict=True))
        waves: list[list[Delivery]] = [[] for _ in HOURS_BEFORE]
        for webhook in webhooks:
            waves[first[webhook.serial]].append(Genuine(webhook))
        again = random.sample(webhooks, int(WEBHOOKS * RESENT_SHARE))
        for webhook in again:
            for number, later in enumerate(_later(random, webhook, first[webhook.serial]), 1):
                waves[later].append(Genuine(webhook, number))
        forged = list(_forgeries(random, webhooks))
        replays = list(_replays(random, webhooks))
        handshakes = [Handshake(f"challenge-{n}") for n in range(HANDSHAKES)]
        extras: list[Delivery] = [*forged, *handshakes]
        for extra in extras:
            random.choice(waves).append(extra)
        waves[-1] += replays
        for wave in waves:
            random.shuffle(wave)
        altered = list(_altered(random, webhooks))
        for copy in altered:
            waves[first[copy.webhook.serial]].insert(0, copy)
        return cls(webhooks, len(again), forged, len(replays), altered, handshakes, waves)


def _sample(random: Random, serial: str, *providers: Provider) -> SampleWebhook:
    provider = random.choice(providers or [*Provider])
    is_form = provider is Provider.GITHUB and random.random() < 0.25
    return SampleWebhook.sample(provider, serial, random.randint(1, 10**6), is_form=is_form)


def _first_waves() -> Iterator[int]:
    for wave, share in enumerate(_FIRST_SENT):
        yield from [wave] * round(WEBHOOKS * share)


def _later(random: Random, webhook: SampleWebhook, first: int) -> Sequence[int]:
    """Return the waves in which a webhook comes again, the first one included: in parallel."""
    last = len(HOURS_BEFORE) - 1
    if webhook.provider is Provider.SHOPIFY:  # it gives up after four hours
        last = max(first, 1)
    return sorted(random.choices(range(first, last + 1), k=random.randint(1, 2)))


def _forgeries(random: Random, webhooks: Sequence[SampleWebhook]) -> Iterator[Forged]:
    count = int(WEBHOOKS * FORGED_SHARE)
    for number, trick in enumerate(islice(cycle(Trick), count)):
        if trick in NEEDS_GENUINE:
            yield Forged(random.choice(webhooks), trick)
        else:
            providers = SIGNS_TIME if trick in NEEDS_TIME else ()
            yield Forged(_sample(random, f"forged-{number:03}", *providers), trick)


def _replays(random: Random, webhooks: Sequence[SampleWebhook]) -> Iterator[Genuine]:
    unsigned_id = [w for w in webhooks if w.provider in {Provider.GITHUB, Provider.SHOPIFY}]
    for webhook in random.sample(unsigned_id, REPLAYED):
        yield Genuine(webhook, other_id=f"other-{webhook.id}")


def _altered(random: Random, webhooks: Sequence[SampleWebhook]) -> Iterator[Altered]:
    for number, webhook in enumerate(random.sample(webhooks, ALTERED)):
        is_typed = SIGNERS[webhook.provider].type and number % 4
        yield Altered(webhook, type=f"other-{number % 2}" if is_typed else "")
