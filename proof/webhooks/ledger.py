"""The independent ledger of webhooks: oracles over answers, captures, objects and events.

It knows what the providers have sent, and uses nothing of the library but names.
"""

import base64
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from once.names import Record
from once.webhooks.capture import CaptureAttribute, Standing
from once.webhooks.endpoint import CAPTURES
from proof.shop.ledger import Violation
from proof.shop.service import DEDUP
from proof.webhooks import receiver
from proof.webhooks.service import PROPS, SECRETS, WebhookService
from proof.webhooks.webhook import Delivery, Webhook, signature_of
from proof.world.expressions import Item
from proof.world.messages import Message
from proof.world.queues import Queue

_KNOWN_SECONDS = 20.0
"""After this time, every function has read a new secret that a request needs."""


Label = tuple[str, int]
"""An event's type, and the number in its data."""


class WebhookLedger:
    """Checks an ingress against the webhooks that were sent.

    Attributes:
        quiet_from: the time from which no fault takes effect any more.
    """

    def __init__(self, service: WebhookService, webhooks: Sequence[Webhook]) -> None:
        self._service = service
        self._world = service.world
        self._webhooks = webhooks
        self._place = service.places[receiver.NAME]
        self._checked: object = None
        self.quiet_from = math.inf
        self._labels: dict[str, Label] = {}

    def check_answer(self, delivery: Delivery, status: int, began: float) -> None:
        """Check the answer to a request.

        Raises:
            Violation: what must be refused was accepted, or the other way round, or success was
                answered and nothing is durable.
        """
        webhook, is_success = delivery.webhook, status // 100 == 2
        if webhook is None:
            if is_success:
                raise Violation("accepted a forgery", f"{delivery.endpoint}: {delivery.headers}")
        elif is_success:
            webhook.accepted = True
            self._check_durable(webhook)
        elif status // 100 == 5 and began > self.quiet_from:
            raise Violation("failed without a fault", f"{webhook.number}: {status}")
        elif status // 100 != 5 and self._is_known(delivery, began):
            raise Violation("refused", f"{webhook.number}: {status}")

    def check_acknowledgement(self, consumer: str, queue: Queue, message: Message) -> None:
        """Check that the consumer has counted an acknowledged event, or has kept its message.

        Raises:
            Violation: it has not.
        """
        copies = [*self._place.dead_letters.ever]
        if self._place.isolation is not None and self._place.isolation is not queue:
            copies += self._place.isolation.ever
        if any(copy.body == message.body for copy in copies):
            return
        if not self._counted(self._label(message.body)):
            raise Violation("acknowledged without effect", f"{consumer}: {message.body[:300]}")

    def check_state(self) -> None:
        """Check that each webhook has one event at most, and that nothing else left a trace.

        Raises:
            Violation: an oracle is violated.
        """
        now = (
            self._world.tables.transactions,
            len(self._world.objects.content),
            len(self._place.queue.ever),
        )
        if now == self._checked:
            return
        self._checked = now
        self._check_events()
        self._check_traces()

    def check_rest(self) -> None:
        """Check that each webhook was accepted and captured, and has its event or a conflict.

        Raises:
            Violation: an oracle is violated.
        """
        self.check_state()
        if unheard := [webhook.number for webhook in self._webhooks if not webhook.heard]:
            raise Violation("never accepted", str(unheard))
        for webhook in self._webhooks:
            self._check_durable(webhook)
            self._check_key(webhook)
        found = [webhook for webhook in self._known if self._capture_of(webhook) is not None]
        if len(self._captures) != len(found):
            raise Violation("captures", f"{len(self._captures)} of {len(found)}")
        for webhook in self._known:
            times, owed = self._counted(webhook.label), self._is_event(webhook)
            if times != owed:
                raise Violation("lost or doubled", f"{webhook.label} was counted {times} times")

    @property
    def _known(self) -> list[Webhook]:
        """The webhooks, and what an attacker made of them with another type."""
        return [*dict.fromkeys(each for w in self._webhooks for each in (w, *w.twins.values()))]

    @property
    def _captures(self) -> list[Item]:
        return [*self._world.tables.items[CAPTURES].values()]

    def _is_known(self, delivery: Delivery, began: float) -> bool:
        since = self._world.secrets.valid_since(SECRETS[delivery.endpoint], delivery.secret)
        return since is not None and since + _KNOWN_SECONDS <= began

    def _check_durable(self, webhook: Webhook) -> None:
        """Check that an accepted webhook has its capture, and its event or a visible conflict."""
        if self._capture_of(webhook) is None:
            raise Violation("accepted and not captured", str(webhook.label))
        if self._is_event(webhook) and not self._events()[webhook.label]:
            raise Violation("accepted without an event", str(webhook.label))

    def _check_key(self, webhook: Webhook) -> None:
        """Check that of the webhooks with one key, one is no conflict."""
        standings = [s for each in webhook.same if (s := self._standing(each)) is not None]
        if len(standings) - standings.count(Standing.CONFLICT) != 1:
            raise Violation("conflict", f"{webhook.label}: {standings}")

    def _is_event(self, webhook: Webhook) -> bool:
        """Tell whether a webhook has to have an event: it was captured and is no conflict."""
        standing = self._standing(webhook)
        return webhook.handed_on and standing not in (None, Standing.CONFLICT)

    def _standing(self, webhook: Webhook) -> str | None:
        capture = self._capture_of(webhook)
        return None if capture is None else str(capture[CaptureAttribute.STANDING]["S"])

    def _capture_of(self, webhook: Webhook) -> Item | None:
        return next((c for c in self._captures if self._is_of(c, webhook)), None)

    def _is_of(self, capture: Item, webhook: Webhook) -> bool:
        kind = capture.get(CaptureAttribute.WEBHOOK_TYPE, {"S": ""})["S"]
        is_there = capture[CaptureAttribute.ENDPOINT]["S"] == webhook.endpoint
        return is_there and kind == webhook.type and self._body(capture) in webhook.sent

    def _body(self, capture: Item) -> bytes:
        if CaptureAttribute.BODY in capture:
            return base64.b64decode(capture[CaptureAttribute.BODY]["B"])
        return self._world.objects.content.get(capture[CaptureAttribute.BODY_OBJECT]["S"], b"")

    def _check_traces(self) -> None:
        for capture in self._captures:
            body = self._body(capture)
            headers = json.loads(capture[CaptureAttribute.HEADERS]["S"])
            path = capture[CaptureAttribute.PATH]["S"]
            if not self._was_sent(path, body, signature_of(headers)):
                raise Violation("captured what was not sent", f"{path}: {body[:200]!r}")
        if strange := {*self._events()} - {w.label for w in self._known if w.handed_on}:
            raise Violation("an event of nothing that was sent", str(strange))
        records = [pk for pk in self._world.tables.items[DEDUP] if pk.startswith(PROPS.name)]
        if len(records) > len(self._known):
            raise Violation("more records than webhooks", str(records))
        bodies = {body for webhook in self._webhooks for body in webhook.sent}
        for key, content in self._world.objects.content.items():
            if content not in bodies and self._number_in(content) not in self._handed_on:
                raise Violation("stored what was not sent", key)

    @property
    def _handed_on(self) -> set[int]:
        return {webhook.number for webhook in self._webhooks if webhook.handed_on}

    def _was_sent(self, path: str, body: bytes, signature: str) -> bool:
        return any(
            path == f"/{webhook.endpoint}" and signature in webhook.sent.get(body, ())
            for webhook in self._webhooks
        )

    def _check_events(self) -> None:
        events = self._events()
        for webhook in self._webhooks:
            ids = {i for each in webhook.same for i in events[each.label]}
            if len(ids) > 1:
                raise Violation("more than one event", f"{webhook.label}: {sorted(ids)}")

    def _events(self) -> defaultdict[Label, set[str]]:
        """Return the ids of all events, committed or published, by their label."""
        found: defaultdict[Label, set[str]] = defaultdict(set)
        for body in self._event_bodies():
            found[self._label(body)].add(json.loads(body)["id"])
        return found

    def _event_bodies(self) -> Iterator[str]:
        yield from {message.body: None for message in self._place.queue.ever}
        for pk, item in self._world.tables.items[DEDUP].items():
            if pk.startswith(PROPS.name) and Record.OUTBOX in item:
                yield from map(json.dumps, json.loads(item[Record.OUTBOX]["S"]))

    def _label(self, body: str) -> Label:
        """Return the label of an event, whose data may be in S3."""
        if body not in self._labels:
            event: Mapping[str, Any] = json.loads(body)
            if "data" in event:
                number = event["data"].get("n", 0)
            else:
                key = event["dataref"].removeprefix("s3://").partition("/")[2]
                if key not in self._world.objects.content:
                    raise Violation("an event without its data", key)
                number = self._number_in(self._world.objects.content[key])
            self._labels[body] = event["type"], number
        return self._labels[body]

    @staticmethod
    def _number_in(content: bytes) -> int:
        number: int = json.loads(content).get("n", 0)
        return number

    def _counted(self, label: Label) -> int:
        event_type, number = label
        item = self._world.tables.items[receiver.TABLE].get(f"{event_type} {number}", {})
        return int(item["times"]["N"]) if item else 0
