"""The webhook ingress, with a consumer that counts each webhook.

The clauses know the webhooks that were sent, and use nothing of the library but names.
"""

import base64
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from once.cdk import ConsumerProps, TableProps
from once.cdk.props import WebhookProps
from once.consumer import Consumer
from once.names import SOURCE_PREFIX, Record
from once.settings import Settings, TableSettings
from once.transaction import Transaction
from once.webhooks.captured_webhook import CaptureAttribute, CaptureStanding
from once.webhooks.endpoint import (
    CAPTURES,
    GITHUB,
    MAX_REQUEST_BYTES,
    SHOPIFY,
    STANDARD,
    STRIPE,
    Endpoint,
    WebhookSettings,
)
from once.webhooks.ingress import Ingress
from once.webhooks.signature import SecretCache
from proof.ledger import Scenario, Told, check, event_of
from proof.scenarios.senders import (
    ATTACKS,
    KINDS,
    SECRETS,
    Delivery,
    Story,
    Webhook,
    secret_of,
    signature_of,
    webhooks_of,
)
from proof.service import DEDUP, DEDUP_WINDOW_SECONDS, Function, Handle, Service, Violation
from proof.world.clients import clients
from proof.world.expressions import Item
from proof.world.faults import Plan, PlatformFault
from proof.world.tasks import START, Process
from proof.world.world import World

WEBHOOKS = (*KINDS, "conflict", "topics")
_NAME, _TABLE = "receiver", "received"
_ENDPOINTS = (
    Endpoint("stripe", STRIPE, types=("charge.refunded",)),
    Endpoint("github", GITHUB, types=("push",)),
    Endpoint("shopify", SHOPIFY, types=("orders/create", "orders/paid")),
    Endpoint("standard", STANDARD, types=("contact.created",)),
)
_TYPES = tuple(event_type for each in _ENDPOINTS for event_type in each.event_types)
_LINE = ConsumerProps(_NAME, events=_TYPES, tables=(TableProps(_TABLE, "webhook"),))

_consumer = Consumer(_NAME)
_received = _consumer.table(_TABLE)


class Content(Struct, frozen=True):
    """The part of the data that all events have."""

    n: int


def _counter(event_type: str) -> Callable[[Content, Transaction], None]:
    def count(event: Content, tx: Transaction) -> None:
        tx.update(_received, {"webhook": f"{event_type} {event.n}"}, "ADD times :one", {":one": 1})

    return count


for _type in _TYPES:
    _consumer.handles(_type, Content)(_counter(_type))


_PROPS = WebhookProps(endpoints=_ENDPOINTS)
_BUCKET = "claims-of-the-world"
_STEADIER = 5
"""Factor by which the ingress has better clocks: five minutes off, it would refuse all webhooks."""
_PATIENCE = {each.name: each.profile.answer_seconds for each in _ENDPOINTS}
"""The time for which a sender waits for an answer, in seconds."""
_KNOWN_SECONDS = 20.0
"""After this time, every function has read a new secret that a request needs."""
_HORIZON_SECONDS = 3 * 24 * 60 * 60
"""The longest time after which the providers here send a webhook again."""
_RETRIES = (5, 60, 600, 3600, 6 * 3600, 12 * 3600)
"""The delays after each failed attempt, of less than a day together."""
_STALE = (420.0, 3600.0)
"""Beyond the tolerance of five minutes and the clocks of the functions."""
_WITHDRAWN_SECONDS = 400.0
"""When a secret that is no longer in Secrets Manager is refused everywhere."""
_OK, _TOO_MANY = 200, 429
_LATEST_SECONDS = 120
"""The time within which calls that are executed late have been."""


class _Ingress(Service):
    """A webhook ingress with one consumer.

    Attributes:
        ingress: its function.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.world.tables.create(CAPTURES, CaptureAttribute.PK)
        self.ingress = Function(_PROPS.name, _PROPS.timeout_seconds, self._new_ingress, batch=1)

    def _new_ingress(self) -> Handle:
        process = self.process_of(_PROPS.name, _STEADIER)
        settings = WebhookSettings(
            consumer=_PROPS.name,
            dedup_table=DEDUP,
            tables={CAPTURES: TableSettings(CAPTURES, (CaptureAttribute.PK,))},
            dedup_window_seconds=DEDUP_WINDOW_SECONDS,
            publishes=_PROPS.publishes,
            max_body_bytes=MAX_REQUEST_BYTES,
            claim_bucket=_BUCKET,
            endpoints=_PROPS.endpoints,
            secrets=SECRETS,
            capture_seconds=_PROPS.capture_days * 24 * 60 * 60,
        )
        return Ingress(
            settings=settings,
            dynamodb=clients().dynamodb,
            secrets=SecretCache(clients().secretsmanager, SECRETS, process["clock"]),
            s3=clients().s3,
            **process,
        ).handle

    def _publishes(self) -> dict[str, tuple[str, ...]]:
        return {**super()._publishes(), _PROPS.name: _PROPS.publishes}

    def _settings(self, line: ConsumerProps) -> Settings:
        return replace(
            super()._settings(line),
            sources=dict.fromkeys(_PROPS.publishes, (SOURCE_PREFIX + _PROPS.name,)),
            max_body_bytes=MAX_REQUEST_BYTES,
            claim_bucket=_BUCKET,
        )


Label = tuple[str, int]
"""An event's type, and the number in its data."""


class Webhooks(Scenario):
    """An ingress with its providers and an attacker.

    After the faults, the providers send again what was not answered.
    """

    part = Story
    late_by = 2 * 60 * 60  # later than any replay here
    service: _Ingress

    def __init__(
        self, traffic: Sequence[Any], plan: Plan, seed: int, world: type[World] = World
    ) -> None:
        super().__init__(traffic, plan, seed, world)
        self._cast = [(one, webhooks_of(n, one)) for n, one in enumerate(self.traffic, start=1)]
        self._attacks = {webhook: story.attack for story, each in self._cast for webhook in each}
        self._webhooks = [*self._attacks]
        self._place = self.service.places[_NAME]
        self._quiet_from = math.inf
        self._secrets = {endpoint: secret_of(endpoint, 0) for endpoint in SECRETS}
        for endpoint, arn in SECRETS.items():
            self.world.secrets.put(arn, self._secrets[endpoint])

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return random stories."""
        draw = random.Random(f"webhooks {seed}")
        return tuple(
            Story(
                kind,
                attack=draw.choice([*ATTACKS]) if draw.random() < 0.5 else "",
                copies=draw.choice([1, 1, 2, 3]),
                rotated=draw.random() < 0.4,
            )
            for kind in draw.choices(WEBHOOKS, k=draw.randint(1, 4))
        )

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the consumer of all events."""
        return {_LINE: _consumer}

    def deployed(self, plan: Plan, seed: int, world: type[World]) -> Service:
        """Return the ingress."""
        return _Ingress(plan, seed, self.consumers(), world)

    def begin(self) -> None:
        """Let the providers begin, and rotate secrets."""
        choice = self.world.random.choice
        for story, webhooks in self._cast:
            start = choice((0, 0.01, 1, 40, 100, 150, 7200))
            for webhook in webhooks * story.copies:
                self._after(start + choice((0, 0, 0.01, 20)), partial(self._send, webhook))
        rotated = {w.endpoint for story, each in self._cast for w in each if story.rotated}
        for endpoint in sorted(rotated):
            new, put = secret_of(endpoint, 1), 30 + choice((0.5, 30, 3700, 9000))
            self._after(put, partial(self.world.secrets.put, SECRETS[endpoint], new))
            # A provider may use a new secret before it is in Secrets Manager, or later.
            switch = put + choice((-30, 0, 60, 3600))
            self._after(switch, partial(self._secrets.__setitem__, endpoint, new))

    def recover(self) -> None:
        """Let the providers send again what was not answered with success."""
        self._quiet_from = self.world.tasks.now + _LATEST_SECONDS
        for webhook in self._webhooks:
            if not webhook.heard:
                self._send(webhook)

    def repeat(self) -> Iterator[None]:
        """Send each webhook again at the provider's last time, and replay old ones after that."""
        self.world.tasks.now = max(self.world.tasks.now, START + _HORIZON_SECONDS)
        for webhook in self._webhooks:
            self._send(webhook)
        yield
        self._withdraw()
        yield
        self.to_the_end_of_the_window()
        for webhook in self._webhooks:
            self._send(webhook)
        yield

    def _withdraw(self) -> None:
        """Rotate all secrets twice; somebody who has the first ones signs requests later."""
        for endpoint, arn in SECRETS.items():
            for version in (2, 3):
                self._secrets[endpoint] = secret_of(endpoint, version)
                self.world.secrets.put(arn, self._secrets[endpoint])
        at = self.world.tasks.now + _WITHDRAWN_SECONDS
        for webhook in self._webhooks:
            first = secret_of(webhook.endpoint, 0)
            request = webhook.signed_by_other(b'{"n": -3}', first, at)
            self._after(_WITHDRAWN_SECONDS, partial(self._request, request, lambda _: None))

    def _send(self, webhook: Webhook, attempt: int = 0) -> None:
        """Send a webhook until it is answered with success, and sometimes once more."""
        delivery = webhook.delivery(self._secrets[webhook.endpoint], self.world.tasks.now, attempt)
        held = self._attack(self._attacks[webhook], delivery)

        def answered(status: int | None) -> None:
            if status != _OK and attempt < len(_RETRIES):
                self._after(_RETRIES[attempt], partial(self._send, webhook, attempt + 1))
            elif status == _OK and not webhook.heard:
                webhook.heard = True
                if self.world.random.random() < 0.4:
                    again = self.world.random.choice((0.01, 1, 3600, 2 * 86400))
                    self._after(again, partial(self._send, webhook, len(_RETRIES)))

        send = partial(self._request, delivery, answered)
        if held:
            self._after(held, send)
        else:
            send()

    def _attack(self, kind: str, seen: Delivery) -> float:
        """Let the attacker send a request; return the time for which the one seen is held back."""
        if not kind:
            return 0
        # The attacker's request may come first.
        delays = _STALE if kind == "stale" else (-30.0, -0.5, 0.0, 0.5, 30.0, 200.0)
        delay = self.world.random.choice(delays)
        self._after(max(0, delay), partial(self._request, ATTACKS[kind](seen), lambda _: None))
        return max(0, -delay)

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self.world.tasks.at(self.world.tasks.now + seconds, action)

    def _request(self, delivery: Delivery, answered: Callable[[int | None], object]) -> None:
        """Send a request to the ingress; its sender hears the status, or None for no answer."""
        began, ingress, plan = self.world.tasks.now, self.service.ingress, self.world.plan
        if plan.platform(PlatformFault.THROTTLED, ingress.name):
            answered(_TOO_MANY)
            return

        def work(process: Process) -> None:
            heard = None
            try:
                event, clock = delivery.event(), self.world.tasks.clock
                status = ingress.invoke(process, event, clock)["statusCode"]
                self._check_answer(delivery, status, began)
                # The sender may have given up waiting, or the answer is lost on its way.
                is_late = self.world.tasks.now - began > _PATIENCE[delivery.endpoint]
                if not is_late and not plan.platform(PlatformFault.UNANSWERED, ingress.name):
                    heard = status
            finally:
                answered(heard)

        self.service.start("", ingress.name, ingress.seconds, work)

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the consumer has counted an event."""
        del consumer
        return bool(self._counted(self._label(body)))

    def subject_of(self, body: str) -> Any:
        """Return the number of a webhook."""
        return self._label(body)[1]

    def owed(self) -> set[Told]:
        """Return an event for each webhook that was captured and is no conflict."""
        return {webhook.label for webhook in self._webhooks if self._is_event(webhook)}

    @property
    def version(self) -> Any:
        """The number of transactions, objects and events."""
        counts = len(self.world.objects.content), len(self._place.queue.ever)
        return self.world.tables.transactions, *counts

    def check_state(self) -> None:
        """Check that a webhook has one event, and nothing else a trace. Raises Violation."""
        events = self._events()
        for webhook in self._webhooks:
            ids = {i for each in webhook.same for i in events.get(each.label, ())}
            check("more than one event", sorted(ids) if len(ids) > 1 else ())
        for capture in self._captures:
            body, path = self._body(capture), capture[CaptureAttribute.PATH]["S"]
            signature = signature_of(json.loads(capture[CaptureAttribute.HEADERS]["S"]))
            if not any(
                path == f"/{webhook.endpoint}" and signature in webhook.sent.get(body, ())
                for webhook in self._webhooks
            ):
                raise Violation("captured what was not sent", f"{path}: {body[:200]!r}")
        handed_on = {webhook.label for webhook in self._webhooks if webhook.handed_on}
        check("an event of nothing that was sent", {*events} - handed_on)
        records = [pk for pk in self.world.tables.items[DEDUP] if pk.startswith(_PROPS.name)]
        check("more records than webhooks", records[len(self._webhooks) :])
        bodies = {body for webhook in self._webhooks for body in webhook.sent}
        numbers = {webhook.number for webhook in self._webhooks if webhook.handed_on}
        stored = self.world.objects.content
        strange = [key for key, content in stored.items() if content not in bodies]
        left = [key for key in strange if _number_in(stored[key]) not in numbers]
        check("stored what was not sent", left)

    def check_rest(self) -> None:
        """Check that each webhook was accepted, captured and counted once. Raises Violation."""
        check("never accepted", [webhook.number for webhook in self._webhooks if not webhook.heard])
        for webhook in self._webhooks:
            self._check_durable(webhook)
            # Of the webhooks with one key, one is no conflict.
            standings = [s for each in webhook.same if (s := self._standing(each))]
            if len(standings) - standings.count(CaptureStanding.CONFLICT) != 1:
                raise Violation("conflict", f"{webhook.label}: {standings}")
        if len(self._captures) != len(self._webhooks):
            raise Violation("captures", f"{len(self._captures)} of {len(self._webhooks)}")
        for webhook in self._webhooks:
            times, owed = self._counted(webhook.label), self._is_event(webhook)
            if times != owed:
                raise Violation("lost or doubled", f"{webhook.label} was counted {times} times")

    def _check_answer(self, delivery: Delivery, status: int, began: float) -> None:
        """Check that a forgery was refused, and that success means that a webhook is durable."""
        webhook, is_success = delivery.webhook, status // 100 == 2
        if webhook is None:
            if is_success:
                raise Violation("accepted a forgery", f"{delivery.endpoint}: {delivery.headers}")
        elif is_success:
            self._check_durable(webhook)
        elif status // 100 == 5:
            if began > self._quiet_from:
                raise Violation("failed without a fault", f"{webhook.number}: {status}")
        else:
            put = self.world.secrets.valid_since(SECRETS[delivery.endpoint], delivery.secret)
            if put is not None and put + _KNOWN_SECONDS <= began:
                raise Violation("refused", f"{webhook.number}: {status}")

    def _check_durable(self, webhook: Webhook) -> None:
        """Check that an accepted webhook has its capture, and its event or a visible conflict."""
        check("accepted and not captured", () if self._standing(webhook) else webhook.label)
        if self._is_event(webhook) and not self._events()[webhook.label]:
            raise Violation("accepted without an event", str(webhook.label))

    @property
    def _captures(self) -> list[Item]:
        return [*self.world.tables.items[CAPTURES].values()]

    def _is_event(self, webhook: Webhook) -> bool:
        """Tell whether a webhook has to have an event: it was captured and is no conflict."""
        return webhook.handed_on and self._standing(webhook) not in ("", CaptureStanding.CONFLICT)

    def _standing(self, webhook: Webhook) -> str:
        """Return the standing of a webhook's capture; empty if it has none."""
        for capture in self._captures:
            kind = capture.get(CaptureAttribute.WEBHOOK_TYPE, {"S": ""})["S"]
            place = capture[CaptureAttribute.ENDPOINT]["S"], kind
            if place == (webhook.endpoint, webhook.type) and self._body(capture) in webhook.sent:
                return str(capture[CaptureAttribute.STANDING]["S"])
        return ""

    def _body(self, capture: Item) -> bytes:
        if CaptureAttribute.BODY in capture:
            return _decoded(capture[CaptureAttribute.BODY]["B"])
        return self.world.objects.content.get(capture[CaptureAttribute.BODY_OBJECT]["S"], b"")

    def _events(self) -> defaultdict[Label, set[str]]:
        """Return the ids of all events, committed or published, by their label."""
        bodies = {message.body for message in self._place.queue.ever}
        for pk, item in self.world.tables.items[DEDUP].items():
            if pk.startswith(_PROPS.name) and Record.OUTBOX in item:
                bodies |= {*map(json.dumps, json.loads(item[Record.OUTBOX]["S"]))}
        found: defaultdict[Label, set[str]] = defaultdict(set)
        for body in bodies:
            found[self._label(body)].add(event_of(body)["id"])
        return found

    def _label(self, body: str) -> Label:
        """Return the label of an event, whose data may be in S3."""
        event = event_of(body)
        if "data" in event:
            return event["type"], event["data"].get("n", 0)
        key = event["dataref"].removeprefix("s3://").partition("/")[2]
        if key not in self.world.objects.content:
            raise Violation("an event without its data", key)
        return event["type"], _number_in(self.world.objects.content[key])

    def _counted(self, label: Label) -> int:
        return int(self.row(_TABLE, f"{label[0]} {label[1]}").get("times", 0))


@lru_cache(maxsize=100)
def _decoded(text: str) -> bytes:
    return base64.b64decode(text)


@lru_cache(maxsize=100)
def _number_in(content: bytes) -> int:
    number: int = json.loads(content).get("n", 0)
    return number
