"""Oracles of an exploration: properties of every state, and of each state at rest.

Like the ledger of the shop, to which they add, they look at tables, queues, charges and e-mails
alone.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from once.names import Reason, Record, State
from proof.explore.scope import Scope
from proof.shop.ledger import Ledger, Violation
from proof.shop.service import DEDUP, Service
from proof.shop.unknown_outcomes import reason_of
from proof.world.messages import Message

_TOLD = {
    "reserved": "stock.reserved",
    "refused": "stock.refused",
    "captured": "payment.captured",
    "declined": "payment.declined",
}
"""The event type that is published with each status of a reservation or a payment."""


class Oracles:
    """Checks the states of one execution.

    Args:
        service: the service.
        ledger: the shop's ledger.
        scope: the scope.

    Attributes:
        commits: the ids of the commits that each key of a record has seen as done.
        expired_at: when TTL removed the records, in seconds since the epoch; None before.
    """

    def __init__(self, service: Service, ledger: Ledger, scope: Scope) -> None:
        self.commits: defaultdict[str, set[str]] = defaultdict(set)
        self.expired_at: float | None = None
        self._service = service
        self._ledger = ledger
        self._scope = scope
        self._read = 0

    @property
    def published(self) -> set[tuple[str, str, bool]]:
        """The type and order of each published event, and whether its record had expired."""
        queues = [place.queue for place in self._service.places.values()]
        found = [(json.loads(m.body), m.sent_at) for queue in queues for m in queue.ever]
        given = {json.loads(body)["id"] for body in self._given}
        return {
            (event["type"], event["data"]["order_id"], sent_at >= (self.expired_at or math.inf))
            for event, sent_at in found
            if event["id"] not in given
        }

    def check_state(self) -> None:
        """Check what must hold in every state.

        Raises:
            Violation: it does not hold.
        """
        stream = self._service.world.tables.stream
        for images in (record["dynamodb"] for record in stream[self._read :]):
            key, after = images["Keys"][Record.PK]["S"], images.get("NewImage")
            if after is None:
                self.commits.pop(key, None)
            elif after[Record.STATE] == {"S": State.DONE}:
                self.commits[key].add(after[Record.COMMIT]["S"])
        self._read = len(stream)
        if twice := [key for key, commits in self.commits.items() if len(commits) > 1]:
            raise Violation("committed twice", str(twice))
        self._ledger.check_state()

    def check_rest(self, *, is_disturbed: bool) -> None:
        """Check what must hold when nothing can go on.

        Args:
            is_disturbed: whether the schedule has a fault or an outage.

        Raises:
            Violation: it does not hold.
        """
        published = {(kind, order) for kind, order, _ in self.published}
        if again := {event for event in self.published if event[2]}:
            raise Violation("published after its record expired", str(again))
        if missing := self._to_publish - published:
            raise Violation("committed and not published", str(missing))
        if unfounded := published - self._to_publish:
            raise Violation("published and not committed", str(unfounded))
        for name in self._scope.running:
            self._check_place(name, is_disturbed=is_disturbed)

    @property
    def _given(self) -> set[str]:
        return {sent.body for sent in (*self._scope.sent, *self._scope.letters, *self._scope.late)}

    @property
    def _to_publish(self) -> set[tuple[str, str]]:
        """The type and order of each event that follows from a row."""
        return {
            (_TOLD[status], order)
            for table in ("reservations", "payments")
            for order, row in self._service.world.tables.items[table].items()
            if (status := row["status"]["S"]) in _TOLD
        }

    def _check_place(self, name: str, *, is_disturbed: bool) -> None:
        place = self._service.places[name]
        letters = {letter.body for letter in place.dead_letters.waiting}
        for message in (*place.queue.ever, *place.dead_letters.ever):
            if not self._ledger.has_effect(name, message.body) and message.body not in letters:
                raise Violation("lost", message.body)
        for letter in place.dead_letters.waiting:
            if not self._is_explained(name, letter, is_disturbed=is_disturbed):
                raise Violation("unexplained dead letter", reason_of(letter) or letter.body)
        for problem in self._outside(name):
            raise Violation("outcome", problem)

    def _is_explained(self, name: str, letter: Message, *, is_disturbed: bool) -> bool:
        match reason_of(letter):
            case Reason.KEY_CONFLICT:
                return letter.body in self._scope.conflicting and not self._ledger.has_effect(
                    name, letter.body
                )
            case Reason.EFFECT_UNKNOWN:
                return is_disturbed
            case Reason.UNFINISHED:
                return letter.body in self._scope.fatal
        # A redrive that fails leaves a letter where it was: it may go on with the next one.
        is_first = any(letter.body == sent.body for sent in self._scope.letters)
        return is_disturbed and is_first and not reason_of(letter)

    def _outside(self, name: str) -> Iterator[str]:
        """Compare what the tables say of effects with what happened outside."""
        world = self._service.world
        unknown = [
            letter
            for letter in self._service.places[name].dead_letters.waiting
            if reason_of(letter) == Reason.EFFECT_UNKNOWN
        ]
        if not unknown and any(pk.startswith(f"{name}#") for pk in self._ledger.pending()):
            yield "an effect is pending, and no dead letter tells of it"
        for order, row in world.tables.items.get(name, {}).items():
            is_captured = name == "payments" and row["status"] == {"S": "captured"}
            if is_captured and world.provider.charged()[order] != 1:
                yield f"{order} is captured, and was not charged"
            if name == "notifications" and not any(
                order in subject for _, subject in world.mail.sent
            ):
                yield f"{order} is told, and no e-mail was sent"


def has_outbox(record: Mapping[str, Any]) -> bool:
    """Tell whether a stream record holds events, be it in an image of the past."""
    images = (record["dynamodb"].get(which, {}) for which in ("OldImage", "NewImage"))
    return any(Record.OUTBOX in image for image in images)


def expiring_keys(service: Service) -> list[str]:
    """Return the keys of all records that have an expiry."""
    items = service.world.tables.items[DEDUP].items()
    return [key for key, item in items if Record.EXPIRES_AT in item]
