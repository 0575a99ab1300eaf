"""The relay: whatever of the stream comes again, and whatever fails, what committed is heard.

The model: for each record of the stream, the events that its commit is the first to hold. Every
commit's events say which one they are of, so that none can stand for another.
"""

import json
from contextlib import suppress
from itertools import count
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from once.events.dedup_key import key_hash
from once.events.outgoing import event_id_of
from once.outbox.stream_relay import NotRelayed, Relay
from once.schema import Reason
from once.settings import RelaySettings
from proof.shop.clients import clients
from proof.shop.doubts import reason_of
from proof.shop.service import DEDUP, Context, url
from proof.world.calls import Call
from proof.world.errors import ServiceError
from proof.world.queues import Queue
from proof.world.tasks import Process
from tests.proof.machines import LOGGER, NO_METRICS, TROUBLES, Stage, Trouble, quick

NAMES = st.sampled_from(["a", "b", "c", "d"])
POISON = ["{", "[{}]", "[1]", '["x"]', '[{"id": "i", "source": "s"}]']
"""Outboxes that nobody can read."""
SECONDS = 8
"""With the margin kept back, three for its work: a few calls without an answer use them up."""
UNWANTED = "unwanted"
"""In an event that the topic never takes."""
FORGED = "forged"
"""In an event of another consumer's, which the record's own one may not publish."""


class Stream(RuleBasedStateMachine):
    """Dedup records change, and one relay after the other gets what changed."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = Queue("heard")
        self.dead = Queue("relay-dead")
        queues = [self.heard, self.dead]
        self.stage = Stage({}, queues, {"topic": {"told": [self.heard]}})
        self.stage.hear = self._check_call
        self.numbers = count(1)
        self.fresh: list[list[str]] = []
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

    @rule(name=NAMES, kinds=st.lists(st.sampled_from(["", "", UNWANTED, FORGED]), max_size=4))
    def events_commit(self, *, name: str, kinds: list[str]) -> None:
        """The record is new, or put over an expired one, or a pending one turns done."""
        commit = next(self.numbers)
        bodies = [
            _event(name, position, f"{kind} {commit}", forged=kind == FORGED)
            for position, kind in enumerate(kinds)
        ]
        self._put(name, commit, f"[{','.join(bodies)}]" if bodies else None, bodies)

    @rule(name=NAMES)
    def an_effect_begins(self, name: str) -> None:
        self._put(name, next(self.numbers), None, [])

    @precondition(lambda self: self._records())
    @rule(pick=st.integers(0, 3))
    def a_record_changes_under_its_commit(self, pick: int) -> None:
        """Such as a pending one that is taken over."""
        item = self._records()[pick % len(self._records())]
        self.stage.tables.put(DEDUP, item | {"owner": {"S": str(next(self.numbers))}})
        self.fresh.append([])

    @precondition(lambda self: self._records())
    @rule(pick=st.integers(0, 3))
    def an_expired_record_is_removed(self, pick: int) -> None:
        item = self._records()[pick % len(self._records())]
        self.stage.tables.remove(DEDUP, item["pk"]["S"])
        self.fresh.append([])

    @rule(name=NAMES, outbox=st.sampled_from(POISON))
    def poison_commits(self, name: str, outbox: str) -> None:
        self._put(name, next(self.numbers), outbox, [outbox])

    @precondition(lambda self: self.position < len(self.fresh))
    @rule(size=st.integers(1, 10), troubles=TROUBLES)
    def the_relay_gets_a_batch(self, size: int, troubles: list[Trouble | None]) -> None:
        """If it failed before, it is the same one, or the first part of it, or more."""
        self._relay(size, troubles)

    @precondition(lambda self: self.position > 0)
    @rule(back=st.integers(1, 10))
    def batches_come_again_that_were_done(self, back: int) -> None:
        self.position = max(0, self.position - back)

    @invariant()
    def nothing_is_heard_but_what_committed(self) -> None:
        committed = {body for bodies in self.fresh for body in bodies}
        assert self._heard() | self._dead() <= committed

    @invariant()
    def what_the_stream_has_left_behind_is_heard_or_dead(self) -> None:
        done = {body for bodies in self.fresh[: self.position] for body in bodies}
        assert done <= self._heard() | self._dead()

    @invariant()
    def only_poison_is_dead_and_says_why(self) -> None:
        assert all(_is_bad(letter.body) for letter in self.dead.ever)
        assert all(reason_of(letter) == Reason.UNPUBLISHABLE for letter in self.dead.ever)
        assert not any(map(_is_bad, self._heard()))

    def teardown(self) -> None:
        self.stage.close(self._all_is_relayed)

    def _all_is_relayed(self) -> None:
        """Without trouble every batch is done at the first try, poison or not."""
        self.stage.rest()
        self.position = 0
        while (before := self.position) < len(self.fresh):
            self._relay(10, [])
            assert self.position > before
        self.nothing_is_heard_but_what_committed()
        self.what_the_stream_has_left_behind_is_heard_or_dead()
        self.only_poison_is_dead_and_says_why()

    def _relay(self, size: int, troubles: list[Trouble | None]) -> None:
        end = min(self.position + size, len(self.fresh))
        records = self.stage.tables.stream[self.position : end]
        self.batch = {body for bodies in self.fresh[self.position : end] for body in bodies}

        def work(process: Process) -> None:
            with suppress(NotRelayed, ClientError, BotoCoreError):
                context = Context(process, self.stage.tasks.clock)
                self.relay.handle({"Records": records}, context)
                self.position = end

        self.stage.start("relay", SECONDS, work, troubles)
        self.stage.rest()

    def _check_call(self, call: Call) -> None:
        """What is published is of the batch, and of commits that are new in it."""
        if call.service == "sns":
            bodies = {text for name, text in call.request.items() if name.endswith(".Message")}
            assert bodies <= self.batch, bodies - self.batch
            if any(UNWANTED in body for body in bodies):
                raise ServiceError("InvalidParameter")

    def _put(self, name: str, commit: int, outbox: str | None, bodies: list[str]) -> None:
        item = {
            "pk": {"S": f"notes#{name}"},
            "commit": {"S": str(commit)},
            "committed_at": {"N": str(int(self.stage.tasks.now * 1000))},
        }
        self.stage.tables.put(DEDUP, item | ({"outbox": {"S": outbox}} if outbox else {}))
        self.fresh.append(bodies)

    def _records(self) -> list[dict[str, Any]]:
        return [*self.stage.tables.items[DEDUP].values()]

    def _heard(self) -> set[str]:
        return {message.body for message in self.heard.ever}

    def _dead(self) -> set[str]:
        return {letter.body for letter in self.dead.ever}


def _event(name: str, position: int, data: str, *, forged: bool) -> str:
    """The id is the same whenever the key is used anew, as in the service."""
    event_id = event_id_of(key_hash(f"notes#{name}"), position)
    source = "/once/others" if forged else "/once/notes"
    return json.dumps({"id": event_id, "source": source, "type": "told", "data": data})


def _is_bad(body: str) -> bool:
    return body in POISON or UNWANTED in body or FORGED in body


TestStream = Stream.TestCase
TestStream.settings = quick(120)
