"""Machine of the relay: whatever the stream delivers again or fails, every event is published.

The model: for each record of the stream, the events of which its commit is the first. The data of
each event names its commit, so that no event can be taken for another.
"""

import json
from contextlib import suppress
from itertools import count
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from once.events.identity import key_hash
from once.events.outgoing import event_id_of
from once.names import Reason
from once.outbox.relay import NotRelayed, Relay
from once.settings import RelaySettings
from proof.service import DEDUP, Context, url
from proof.world.calls import Call, ServiceError
from proof.world.clients import NO_METRICS, clients
from proof.world.queues import Queue
from proof.world.tasks import Process
from tests.proof.machine_functions import LOGGER
from tests.proof.machines import FAULTS, Faults, Machine, Stage, quick

NAMES = st.sampled_from(["a", "b", "c", "d"])
UNREADABLE = ["{", "[{}]", "[1]", '["x"]', '[{"id": "i", "source": "s"}]']
SECONDS = 8
"""Timeout of the relay; less its time margin, three seconds: a few lost answers use them up."""
REJECTED = "rejected"
"""In an event that the topic always rejects."""
FORGED = "forged"
"""In an event of another consumer, which the record's consumer may not publish."""


class Stream(Machine):
    """Dedup records change, and the relay gets the changes, one batch after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.published = Queue("published")
        self.dead = Queue("relay-dead")
        queues = [self.published, self.dead]
        self.stage = Stage({}, queues, {"topic": {"told": [self.published]}})
        self.stage.observe = self._check_call
        self.numbers = count(1)
        self.new_events: list[list[str]] = []
        self.position = 0
        self.batch: set[str] = set()
        self.relay = Relay(
            settings=RelaySettings(
                service="machine",
                topic_arn="topic",
                dead_letter_url=url(self.dead),
                publishes={"notes": ("told",)},
            ),
            sns=clients().sns,
            sqs=clients().sqs,
            logger=LOGGER,
            metrics=NO_METRICS,
            clock=self.stage.tasks.clock,
            sleep=self.stage.tasks.pause,
        )

    @rule(name=NAMES, kinds=st.lists(st.sampled_from(["", "", REJECTED, FORGED]), max_size=4))
    def commit_events(self, *, name: str, kinds: list[str]) -> None:
        """Write a new record, or replace an expired or a pending one."""
        commit = next(self.numbers)
        bodies = [
            _event(name, position, f"{kind} {commit}", is_forged=kind == FORGED)
            for position, kind in enumerate(kinds)
        ]
        self._put(name, commit, f"[{','.join(bodies)}]" if bodies else None, bodies)

    @rule(name=NAMES)
    def begin_an_effect(self, name: str) -> None:
        self._put(name, next(self.numbers), None, [])

    @rule(name=NAMES, outbox=st.sampled_from(UNREADABLE))
    def commit_an_unreadable_outbox(self, name: str, outbox: str) -> None:
        self._put(name, next(self.numbers), outbox, [outbox])

    @precondition(lambda self: self._records())
    @rule(pick=st.integers(0, 3))
    def change_a_record_without_a_commit(self, pick: int) -> None:
        """As a takeover does."""
        item = self._records()[pick % len(self._records())]
        self.stage.tables.put(DEDUP, item | {"owner": {"S": str(next(self.numbers))}})
        self.new_events.append([])

    @precondition(lambda self: self._records())
    @rule(pick=st.integers(0, 3))
    def remove_an_expired_record(self, pick: int) -> None:
        item = self._records()[pick % len(self._records())]
        self.stage.tables.remove(DEDUP, item["pk"]["S"])
        self.new_events.append([])

    @precondition(lambda self: self.position < len(self.new_events))
    @rule(size=st.integers(1, 10), faults=FAULTS)
    def relay_a_batch(self, size: int, faults: Faults) -> None:
        """After a failure, the batch may be longer or shorter."""
        self._relay(size, faults)

    @precondition(lambda self: self.position > 0)
    @rule(back=st.integers(1, 10))
    def deliver_finished_records_again(self, back: int) -> None:
        self.position = max(0, self.position - back)

    @invariant()
    def only_committed_events_are_published(self) -> None:
        committed = {body for bodies in self.new_events for body in bodies}
        assert self._published() | self._dead() <= committed

    @invariant()
    def every_event_of_a_finished_record_is_published_or_dead_lettered(self) -> None:
        done = {body for bodies in self.new_events[: self.position] for body in bodies}
        assert done <= self._published() | self._dead()

    @invariant()
    def only_bad_events_are_dead_lettered_with_their_reason(self) -> None:
        assert all(_is_bad(letter.body) for letter in self.dead.ever)
        assert all(letter.reason == Reason.UNPUBLISHABLE for letter in self.dead.ever)
        assert not any(map(_is_bad, self._published()))

    def recover(self) -> None:
        """Without faults, every batch is finished at its first attempt."""
        self.position = 0
        while (before := self.position) < len(self.new_events):
            self._relay(10, [])
            assert self.position > before

    def _relay(self, size: int, faults: Faults) -> None:
        end = min(self.position + size, len(self.new_events))
        records = self.stage.tables.stream[self.position : end]
        self.batch = {body for bodies in self.new_events[self.position : end] for body in bodies}

        def work(process: Process) -> None:
            with suppress(NotRelayed, ClientError, BotoCoreError):
                self.relay.handle({"Records": records}, Context(process, self.stage.tasks.clock))
                self.position = end

        self.stage.start("relay", SECONDS, work, faults)
        self.stage.rest()

    def _check_call(self, call: Call) -> None:
        """Check that published events are of the batch, and of its new commits."""
        if call.service == "sns":
            bodies = {entry["Message"] for entry in call.request["PublishBatchRequestEntries"]}
            assert bodies <= self.batch, bodies - self.batch
            if any(REJECTED in body for body in bodies):
                raise ServiceError("InvalidParameter")

    def _put(self, name: str, commit: int, outbox: str | None, events: list[str]) -> None:
        item = {
            "pk": {"S": f"notes#{name}"},
            "commit": {"S": str(commit)},
            "committed_at": {"N": str(int(self.stage.tasks.now * 1000))},
        }
        self.stage.tables.put(DEDUP, item | ({"outbox": {"S": outbox}} if outbox else {}))
        self.new_events.append(events)

    def _records(self) -> list[dict[str, Any]]:
        return [*self.stage.tables.items[DEDUP].values()]

    def _published(self) -> set[str]:
        return {message.body for message in self.published.ever}

    def _dead(self) -> set[str]:
        return {letter.body for letter in self.dead.ever}


def _event(name: str, position: int, data: str, *, is_forged: bool) -> str:
    """Return an event; its id is the same for each commit of a key, as in the service."""
    event_id = event_id_of(key_hash(f"notes#{name}"), position)
    source = "/once/others" if is_forged else "/once/notes"
    return json.dumps({"id": event_id, "source": source, "type": "told", "data": data})


def _is_bad(body: str) -> bool:
    return body in UNREADABLE or REJECTED in body or FORGED in body


TestStream = Stream.TestCase
TestStream.settings = quick(120)
