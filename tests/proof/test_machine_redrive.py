"""Machine of the redrive: interrupted anywhere, no dead letter is lost or processed twice.

The operator's tools are the real ones, and the consumer works meanwhile. The model: the events that
were sent, the counts of each, and the e-mails, which are sent at most once.
"""

import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec import Struct

from once.cdk import ConsumerProps
from once.consumer import Consumer
from once.effects.declaration import Policy
from once.errors import PermanentError, Refusal
from once.names import Reason, Standing, State
from once.testing.events import cloud_event
from once.transaction import Transaction
from proof.operator import redrive
from proof.service import DEDUP, Place
from proof.world.calls import Call
from proof.world.queues import Message, Queue
from proof.world.tasks import Process
from tests.proof.machines import FAULTS, PICKS, Faults, Function, Machine, Provider, Stage, quick

DAY = 24 * 60 * 60
WINDOW = 45 * DAY
HOLD_SECONDS = 60 + 1
DEEDS = ["counts", "counts", "fails", "poisons", "writes twice", "refuses", "mails", "mails"]
"""The action of each event; all but the first and the last two fail until the consumer is fixed."""
EVENTS = {f"e{number}": does for number, does in enumerate(DEEDS)}
CONFLICTS = {"e0": "fails", "e6": "counts"}
"""Other events with the same ids."""
INVALID = ["{", json.dumps({"id": "e"}), json.dumps(cloud_event("unknown", {}, event_id="u"))]
BODIES = [
    *(json.dumps(cloud_event("noted", {"does": d}, event_id=e)) for e, d in EVENTS.items()),
    *(json.dumps(cloud_event("noted", {"does": d}, event_id=e)) for e, d in CONFLICTS.items()),
    *INVALID,
]


class Note(Struct, frozen=True):
    """The data of an event, and the request of an effect."""

    does: str


class No(Refusal):
    """A refusal that is not handled until the consumer is fixed."""


class Letters(Machine):
    """One consumer, up to two invocations, and up to two operators."""

    def __init__(self) -> None:
        super().__init__()
        self.dead, self.relayed = Queue("notes-dead"), Queue("relay-dead")
        self.queue = Queue("notes", visibility=180, most=5, dead_letters=self.dead)
        self.stage = Stage({"counters": "name"}, [self.queue, self.dead, self.relayed])
        self.stage.observe = self._check_redriven
        self.provider = Provider(self.stage)
        self.function = Function(
            self.stage, self._consumer(), self.queue,
            dedup_window_seconds=WINDOW, effect_timeout_seconds=7,
        )  # fmt: skip
        self.is_fixed = self.have_weeks_passed = False
        self.seen_unknown: dict[Process, set[str]] = {}

    @initialize(bodies=st.lists(st.sampled_from(BODIES), min_size=5, max_size=12))
    def send_events(self, bodies: list[str]) -> None:
        """Each is before its last receive, so that one that fails is dead-lettered at once."""
        for body in bodies:
            message = self.stage.queues.send(self.queue, body, {})
            for _ in range(4):
                message.add_handle()

    @precondition(lambda self: self.stage.running < 2 and self._visible())
    @rule(count=st.integers(1, 10), faults=FAULTS, picks=PICKS)
    def deliver(self, count: int, faults: Faults, picks: list[int]) -> None:
        self.function.deliver(self._visible()[:count], faults)
        self.advance(picks)

    @precondition(lambda self: self.stage.running < 2 and self.dead.waiting)
    @rule(faults=FAULTS, picks=PICKS)
    def redrive(self, faults: Faults, picks: list[int]) -> None:
        self._start_redrive(faults)
        self.advance(picks)

    @rule(seconds=st.sampled_from([0, 1, HOLD_SECONDS]), picks=PICKS)
    def let_time_pass(self, seconds: int, picks: list[int]) -> None:
        self.advance(picks, seconds)

    @precondition(lambda self: not self.is_fixed)
    @rule()
    def fix_the_consumer(self) -> None:
        self.is_fixed = True

    @precondition(lambda self: not self.queue.waiting and not self.stage.running)
    @rule(days=st.sampled_from([20, 44, 46]))
    def let_weeks_pass(self, days: int) -> None:
        """Only while the queue is empty: SQS would delete its messages before."""
        self.stage.rest()
        if not self.queue.waiting:
            self.have_weeks_passed = True
            self.stage.tasks.now += days * DAY
            for key, row in self.stage.rows(DEDUP).items():
                if row.get("expires_at", self.stage.tasks.now) < self.stage.tasks.now:
                    self.stage.tables.remove(DEDUP, key)

    @invariant()
    def no_letter_is_lost(self) -> None:
        there = {message.body for message in self.queue.waiting + self.dead.waiting}
        lost = {message.body for message in self.queue.ever} - there
        assert all(self._is_counted(body) for body in lost), lost

    @invariant()
    def no_event_counts_twice(self) -> None:
        rows = self.stage.rows("counters")
        assert all(row["times"] == 1 for row in rows.values()), rows
        assert len({name.partition(" ")[0] for name in rows}) == len(rows)

    @invariant()
    def no_e_mail_is_sent_twice(self) -> None:
        assert all(times == 1 for times in self.provider.done.values())

    def recover(self) -> None:
        """Without faults, only letters that must not be redriven are left."""
        self.is_fixed = True
        self.function.replace()
        for _ in range(3):
            self.stage.tasks.now += HOLD_SECONDS
            self._start_redrive()
            self.stage.rest()
            while messages := self.queue.waiting:
                self.stage.tasks.now = max(self.stage.tasks.now, messages[0].visible_at)
                self.function.deliver(messages[:10])
                self.stage.rest()
        for letter in self.dead.waiting:
            assert self._may_stay(letter), (letter.reason, letter.body)

    def _may_stay(self, letter: Message) -> bool:
        if letter.body in INVALID:
            # A message is dead-lettered unread once its receives are used up.
            unread = Reason.UNFINISHED
            return letter.reason in (
                *(Reason.UNPARSEABLE, Reason.NO_KEY, Reason.UNKNOWN_TYPE),
                unread,
            )
        if self.have_weeks_passed:
            return True  # an event whose record may have expired is not redriven
        event = json.loads(letter.body)["id"]
        conflict = any(name.startswith(f"{event} ") for name in self.stage.rows("counters"))
        return (conflict and not self._is_counted(letter.body)) or event in self._unknown()

    def _start_redrive(self, faults: Faults = ()) -> None:
        function: Any = None
        line, consumer = ConsumerProps("notes", external=("note",)), self._consumer()
        place = Place(line, self.queue, None, self.dead, function, consumer)
        service: Any = SimpleNamespace(
            places={"notes": place}, relay_dead_letters=self.relayed, world=self.stage
        )

        def work(process: Process) -> None:
            with suppress(ClientError, BotoCoreError):
                redrive(service)

        self.stage.start("operator", 10 * 60, work, faults)

    def _consumer(self) -> Consumer:
        consumer = Consumer("notes")
        counters = consumer.table("counters")

        @consumer.effect("mail", Note, policy=Policy.AT_MOST_ONCE)
        def mail(request: Note, _: object) -> str:
            return self.provider.request(request.does)

        def add(event: Note, tx: Transaction) -> None:
            key = {"name": f"{tx.event.id} {event.does}"}
            tx.update(counters, key, "ADD times :one", {":one": 1})

        @consumer.handles("noted", Note)
        def work(event: Note, tx: Transaction) -> None:
            match event.does:
                case "mails":
                    tx.perform(mail, Note(tx.event.id))
                    return
                case "fails" if not self.is_fixed:
                    raise ValueError
                case "poisons" if not self.is_fixed:
                    raise PermanentError
                case "refuses" if not self.is_fixed:
                    raise No
                case "writes twice" if not self.is_fixed:
                    add(event, tx)
            add(event, tx)

        @consumer.completes(mail)
        def sent(event: Note, outcome: str, tx: Transaction) -> None:
            add(event, tx)

        return consumer

    def _check_redriven(self, call: Call) -> None:
        """Check that no unknown e-mail is redriven, if it was unknown when records were read."""
        process = self.stage.process
        if call.site.startswith("once.ops.") and call.operation == "BatchGetItem":
            self.seen_unknown[process] = self._unknown()
        elif call.operation == "SendMessageBatch":
            bodies = [entry["MessageBody"] for entry in call.request["Entries"]]
            sent = {json.loads(body)["id"] for body in bodies if '"mails"' in body}
            assert sent.isdisjoint(self.seen_unknown.get(process, set()) & self._unknown())

    def _unknown(self) -> set[str]:
        """Return the e-mails that may have been sent, by their records."""
        return {
            key.rpartition("#")[2]
            for key, row in self.stage.rows(DEDUP).items()
            if row["state"] == State.PENDING and row["standing"] != Standing.NOT_DONE
        }

    def _visible(self) -> list[Message]:
        return [m for m in self.queue.waiting if m.visible_at <= self.stage.tasks.now]

    def _is_counted(self, body: str) -> bool:
        if body in INVALID:
            return False
        event = json.loads(body)
        return f"{event['id']} {event['data']['does']}" in self.stage.tables.items["counters"]


TestLetters = Letters.TestCase
TestLetters.settings = quick(80)
