"""The independent ledger: a clause for each promise, over tables, queues and the outside world.

The clauses here hold for every service. What an event has to do, and which sums must be right, says
the scenario; see `Scenario`. Neither uses anything of the library but names.
"""

import json
import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from once.cdk import ConsumerProps
from once.consumer import Consumer
from once.names import DeadLetterAttribute, Reason, Record, Standing, State
from proof.service import DEDUP, DEDUP_WINDOW_SECONDS, INGRESS, Place, Service, Violation
from proof.world.expressions import Item
from proof.world.faults import Plan
from proof.world.queues import NO_GROUPING, Message, Queue
from proof.world.tasks import START
from proof.world.world import World

_DESERIALIZER: Any = TypeDeserializer()
_AFTER_EXPIRY = DEDUP_WINDOW_SECONDS + 24 * 60 * 60
Told = tuple[str, Any]
"""An event's type, and its subject."""


def check(oracle: str, wrong: Collection[Any]) -> None:
    """Raise a violation if anything is wrong."""
    if wrong:
        raise Violation(oracle, str(wrong))


class Scenario(ABC):
    """A service with its traffic, and the promises that are special to it.

    Attributes:
        part: the class of the traffic's parts.
        shards: number of shards of the stream.
        loses_records: whether the stream may lose records, so that they are republished.
        late_by: how long before the end of the dedup window `repeat` sends, in seconds.
        given: the ids of the events that were sent by producers.
        conflicting: bodies that share their key with an event of other content.
        unreadable: texts that have to be dead-lettered, by a consumer or by the relay.
        relays_from: the time from which the relay runs.
        at_once: whether everything is sent at once, and not by the world's timers.
    """

    part: Any
    shards = 1
    loses_records = True
    late_by: float = 0

    def __init__(
        self, traffic: Sequence[Any], plan: Plan, seed: int, world: type[World] = World
    ) -> None:
        self.traffic = tuple(traffic)
        self.service = self.deployed(plan, seed, world)
        self.world = self.service.world
        self.relays_from = START
        self.at_once = False
        self.given: set[str] = set()
        self.conflicting: set[str] = set()
        self.unreadable: set[str] = set()

    @classmethod
    @abstractmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return random traffic."""

    @abstractmethod
    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the lines of the registry with their handlers."""

    def deployed(self, plan: Plan, seed: int, world: type[World]) -> Service:
        """Return the service."""
        return Service(plan, seed, self.consumers(), world)

    @abstractmethod
    def begin(self) -> None:
        """Send the traffic, now or later."""

    def recover(self) -> None:
        """Let senders begin again after the faults."""
        return

    def repeat(self) -> Iterator[None]:
        """Send everything again, at the end of the dedup window; all comes to rest at each step."""
        self.to_the_end_of_the_window()
        for part in self.traffic:
            self.send_again(part)
        yield

    def send_again(self, part: Any) -> None:
        """Send a part of the traffic at the end of the dedup window."""
        raise NotImplementedError

    def soon(self, action: Callable[[], object]) -> None:
        """Do something within a minute."""
        if self.at_once:
            action()
        else:
            later = self.world.random.choice([0, 0.01, 1, 40])
            self.world.tasks.at(self.world.tasks.now + later, action)

    def to_the_end_of_the_window(self) -> None:
        """Let time pass until the first events are about to be forgotten."""
        end = START + DEDUP_WINDOW_SECONDS - self.late_by
        self.world.tasks.now = max(self.world.tasks.now, end)

    def publish(
        self, body: str, topic: str = INGRESS, grouping: Mapping[str, str] = NO_GROUPING
    ) -> None:
        """Publish the event of a producer to a topic."""
        event = event_of(body)
        self.given.add(event["id"])
        self.world.topics.publish(topic, event["type"], body, grouping)

    def enqueue(self, consumer: str, body: str) -> None:
        """Send a message to the queue of a consumer."""
        event = event_of(body)
        self.given.add(event.get("id", ""))
        kind = {"type": {"DataType": "String", "StringValue": event.get("type", "none")}}
        self.world.queues.send(self.service.places[consumer].queue, body, kind)

    def row(self, table: str, key: str) -> dict[str, Any]:
        """Return an item as plain values; empty if there is none."""
        item = self.world.tables.items[table].get(key, {})
        return {name: _DESERIALIZER.deserialize(value) for name, value in item.items()}

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """Return all items of a table as plain values, by key."""
        return {key: self.row(table, key) for key in self.world.tables.items.get(table, ())}

    @abstractmethod
    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the tables hold the effect of an event on a consumer."""

    def subject_of(self, body: str) -> Any:
        """Return the id of the thing that an event is about."""
        return event_of(body).get("data", {}).get("order_id", "")

    def owed(self) -> set[Told]:
        """Return the events that follow from the rows, and so have to be published."""
        return set()

    def may_stay_unknown(self, consumer: str) -> bool:
        """Tell whether an effect of a consumer may keep an unknown outcome after a redrive."""
        del consumer
        return False

    @property
    def version(self) -> Any:
        """A value that changes whenever `check_state` may find something new."""
        return self.world.tables.transactions

    def check_state(self) -> None:
        """Check additional clauses of every state. Raises Violation."""
        return

    def check_rest(self) -> None:
        """Check additional clauses of a state at rest. Raises Violation."""
        return


class Ledger:
    """Checks a scenario, whose consumers all run if none is named.

    Attributes:
        commits: the ids of the commits that each key of a record has seen as done.
        premature: keys of effects that a dead letter reported as unknown while they were running.
        moved: bodies that SQS had dead-lettered before the scenario began.
        expired_at: when TTL removed the records, in seconds since the epoch; infinity before.
        redriven: whether the operator has redriven all dead letters, without faults.
        disturbed: whether there was a fault or an outage.
    """

    def __init__(self, scenario: Scenario, running: Iterable[str] = ()) -> None:
        self.commits: defaultdict[str, set[str]] = defaultdict(set)
        self.premature: set[str] = set()
        self.moved: set[str] = set()
        self.expired_at = math.inf
        self.redriven = False
        self.disturbed = True
        self._scenario = scenario
        self._service = scenario.service
        self._world = scenario.world
        self._places = [self._service.places[name] for name in running or self._service.places]
        self._runs_all = len(self._places) == len(self._service.places)
        self._service.acknowledged = self.check_acknowledgement
        self._read = 0
        self._dead_letters = Counter[str]()
        self._version: object = None

    def check_acknowledgement(self, place: Place, queue: Queue, message: Message) -> None:
        """Check that an acknowledged message had its effect, or was dead-lettered or isolated."""
        copies = [*place.dead_letters.ever]
        if place.isolation is not None and place.isolation is not queue:
            copies += place.isolation.ever
        is_kept = any(copy.body == message.body for copy in copies)
        if not is_kept and not self._scenario.has_effect(place.line.name, message.body):
            raise Violation("acknowledged without effect", f"{place.line.name}: {message.body}")

    def check_state(self) -> None:
        """Check the clauses of every state: one commit for a key, and what the scenario says."""
        if self._read < len(self._world.tables.stream):
            self._read_commits()
            check("committed twice", [key for key, ids in self.commits.items() if len(ids) > 1])
        self._read_dead_letters()
        if self.premature:
            records = self._world.tables.items[DEDUP]
            done = [pk for pk in self.premature if Record.OUTCOME in records.get(pk, {})]
            check("unknown while it is done", sorted(done))
        if (version := self._scenario.version) != self._version:
            self._version = version
            self._scenario.check_state()

    def check_rest(self) -> None:
        """Check the clauses of a state at rest: everything was processed, published, explained."""
        self.check_state()
        published, owed = self.published, self._scenario.owed()
        names = {(kind, subject) for kind, subject, _ in published}
        check("published after its record expired", [event for event in published if event[2]])
        check("committed and not published", owed - names)
        check("published and not committed", names - owed)
        for place in self._places:
            self._check_messages(place)
        dead_letters, expected = self._service.relay_dead_letters.ever, self._scenario.unreadable
        known = {(body, str(Reason.UNPUBLISHABLE)) for body in expected}
        found = {(each.body, each.reason) for each in dead_letters}
        check("unexplained dead letter", found - known)
        self._scenario.check_rest()

    @property
    def published(self) -> set[tuple[str, Any, bool]]:
        """Type and subject of each published event, and whether its record had expired.

        A redrive sends it again at any time.
        """
        places = self._service.places.values()
        redriven = {dead_letter.body for place in places for dead_letter in place.dead_letters.ever}
        last = {message.body: message.sent_at for place in places for message in place.queue.ever}
        return {
            (
                event["type"],
                self._scenario.subject_of(body),
                sent_at >= self.expired_at and body not in redriven,
            )
            for body, sent_at in last.items()
            if (event := event_of(body)) and event["id"] not in self._scenario.given
        }

    def _read_commits(self) -> None:
        stream = self._world.tables.stream
        for images in (record["dynamodb"] for record in stream[self._read :]):
            key, after = images["Keys"][Record.PK]["S"], images.get("NewImage")
            if after is None:
                self.commits.pop(key, None)
            elif after.get(Record.STATE) == {"S": State.DONE}:
                self.commits[key].add(after[Record.COMMIT]["S"])
        self._read = len(stream)

    def _read_dead_letters(self) -> None:
        for name, place in self._service.places.items():
            dead_letters, read = place.dead_letters.ever, self._dead_letters[name]
            if read < len(dead_letters):
                for dead_letter in dead_letters[read:]:
                    self.premature |= set(self._running_effects(name, dead_letter))
                self._dead_letters[name] = len(dead_letters)

    def _running_effects(self, consumer: str, dead_letter: Message) -> Iterator[str]:
        """Yield the keys of effects without a provider key whose owner runs."""
        # Its outcome is in the dead letter if only the commit of it had no answer.
        error = dead_letter.attributes.get(DeadLetterAttribute.ERROR, {}).get("StringValue", "")
        has_outcome = "its outcome could be neither committed" in error
        if dead_letter.reason != Reason.EFFECT_UNKNOWN or has_outcome:
            return
        for pk, item in self._records_of(consumer, dead_letter.body):
            owner = self._world.owners.get(item.get(Record.OWNER, {}).get("S", ""))
            is_running = owner and not owner.dead and owner.deadline > self._world.tasks.now
            in_flight = item.get(Record.STANDING) == {"S": Standing.IN_FLIGHT}
            if Record.KEY_EXPIRES_AT not in item and in_flight and is_running:
                yield pk

    def _records_of(self, consumer: str, body: str) -> Iterator[tuple[str, Item]]:
        """Yield the records of a consumer that are keyed by the subject of an event."""
        end = f":{self._scenario.subject_of(body)}"
        for pk, item in self._world.tables.items[DEDUP].items():
            if pk.startswith(f"{consumer}#") and pk.endswith(end):
                yield pk, item

    def _check_messages(self, place: Place) -> None:
        name, waiting = place.line.name, place.dead_letters.waiting
        dead_letters = {dead_letter.body for dead_letter in waiting}
        bodies = {message.body for message in (*place.queue.ever, *place.dead_letters.ever)}
        has_effect = self._scenario.has_effect
        check("lost", [b[:300] for b in bodies - dead_letters if not has_effect(name, b)])
        for dead_letter in waiting:
            if not self._is_explained(place, dead_letter):
                raise Violation(
                    "unexplained dead letter", f"{name} {dead_letter.reason}: {dead_letter.body}"
                )
        pending = [pk for pk in self.pending() if pk.startswith(f"{name}#")]
        unknown = {
            dead_letter.body for dead_letter in waiting if self._is_unknown(name, dead_letter)
        }
        if len(pending) > len(unknown):
            raise Violation("pending", f"{pending}, and unknown are {unknown}")

    def _is_explained(self, place: Place, dead_letter: Message) -> bool:
        name, body = place.line.name, dead_letter.body
        if body in self._scenario.unreadable:
            return dead_letter.reason == Reason.UNPARSEABLE
        if body in self._world.fatal:
            return dead_letter.reason == Reason.UNFINISHED or self._lost_its_reason(
                place, dead_letter
            )
        if any(self._scenario.has_effect(name, other) for other in self._rivals(body)):
            # It may be dead-lettered before its conflict is found.
            return self.disturbed or dead_letter.reason == Reason.KEY_CONFLICT
        if self._is_unknown(name, dead_letter):
            may_be = not self.redriven or self._scenario.may_stay_unknown(name)
            return self.disturbed and may_be
        # A redrive that fails leaves a dead letter where it was: it may go on with the next one.
        return (
            self.disturbed and not self.redriven and body in self.moved and not dead_letter.reason
        )

    def _rivals(self, body: str) -> list[str]:
        """Return the events with other content and the key of an event."""
        rivals, subject = self._scenario.conflicting, self._scenario.subject_of(body)
        others = rivals - {body} if body in rivals else ()
        return [other for other in others if self._scenario.subject_of(other) == subject]

    def _is_unknown(self, consumer: str, dead_letter: Message) -> bool:
        """Tell whether the outcome of a dead letter's effect is unknown.

        A dead letter without that reason is that of a function that was killed too often.
        """
        if dead_letter.reason == Reason.EFFECT_UNKNOWN or not self.redriven:
            return dead_letter.reason == Reason.EFFECT_UNKNOWN
        records = self._records_of(consumer, dead_letter.body)
        return any(item[Record.STATE] == {"S": State.PENDING} for _, item in records)

    def _lost_its_reason(self, place: Place, dead_letter: Message) -> bool:
        """Tell whether the function could not dead-letter a message at its last receives.

        It could not on a standard queue either if it received the message alone in the last one.
        """
        if dead_letter.reason:
            return False
        for queue in place.sources:
            if message := queue.messages.get(dead_letter.id):
                last = message.receivers[place.line.receive_limit - 1 :]
                others = [each for each in queue.messages.values() if each is not message]
                with_others = any(last[-1:] == [p] for each in others for p in each.receivers)
                ends = queue is place.queue and not queue.is_fifo and bool(last) and not with_others
                return ends or any(process in self._world.disturbed for process in last)
        return False

    def expire(self) -> None:
        """Let every record expire, and TTL remove it."""
        tables = self._world.tables
        now = self.expired_at = self._world.tasks.now = self._world.tasks.now + _AFTER_EXPIRY
        for key, item in [*tables.items[DEDUP].items()]:
            if Record.EXPIRES_AT in item and int(item[Record.EXPIRES_AT]["N"]) < now:
                tables.remove(DEDUP, key)

    def pending(self) -> list[str]:
        """Return the keys of the records whose effect has no outcome."""
        records = self._world.tables.items[DEDUP].items()
        return [pk for pk, item in records if item.get(Record.STATE) == {"S": State.PENDING}]


@lru_cache(maxsize=10_000)
def event_of(body: str) -> Mapping[str, Any]:
    """Return the event in a body; empty if it is not JSON."""
    try:
        event: dict[str, Any] = json.loads(body)
    except ValueError:
        return {}
    return event
