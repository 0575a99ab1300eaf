"""Sending dead letters back, interrupted anywhere: none is lost, and none counts twice.

The operator's tools are the real ones, and consumers work meanwhile. The model: the events that
were sent, what each has counted, and what was mailed outside, at most once, with an open end.
"""

import json
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import Struct

from demo.payment_sandbox.http_messages import Response
from once.consumer import Consumer
from once.errors import NotDone, PermanentError, Refusal
from once.handlers.effect_declaration import Call, Policy
from once.handlers.transaction import Transaction
from once.schema import Reason, Standing, State
from once.testing.events import cloud_event
from proof.shop.doubts import reason_of
from proof.shop.operator import redrive
from proof.shop.service import DEDUP
from proof.world.calls import PROVIDER, site
from proof.world.calls import Call as Attempt
from proof.world.queues import Message, Queue
from proof.world.tasks import Process
from tests.proof.machine_functions import Function
from tests.proof.machine_outside import Post
from tests.proof.machines import PICKS, TROUBLES, Stage, Trouble, quick

DAY = 24 * 60 * 60
WINDOW = 45 * DAY
HELD = 15 * 60 + 1
NONSENSE = "{"
DEEDS = ["counts", "counts", "stumbles", "poisons", "writes twice", "refuses", "mails", "mails"]
"""What each event does; all but the first and the last fail until the consumer is mended."""
EVENTS = {f"e{number}": does for number, does in enumerate(DEEDS)}
CONFLICTS = {"e0": "stumbles", "e6": "counts"}
"""Other events under ids of these."""
BODIES = [
    *(json.dumps(cloud_event("noted", {"does": d}, event_id=e)) for e, d in EVENTS.items()),
    *(json.dumps(cloud_event("noted", {"does": d}, event_id=e)) for e, d in CONFLICTS.items()),
    *(NONSENSE, json.dumps({"id": "e"}), json.dumps(cloud_event("unheard of", {}, event_id="u"))),
]


class Note(Struct, frozen=True):
    """What an event does."""

    does: str


class No(Refusal):
    """A refusal that has no answer until the consumer is mended."""


class Letters(RuleBasedStateMachine):
    """One consumer, up to two of its functions, and up to two operators."""

    def __init__(self) -> None:
        super().__init__()
        self.dead, self.relayed = Queue("notes-dead"), Queue("relay-dead")
        self.queue = Queue("notes", visibility=180, most=5, dead_letters=self.dead)
        self.stage = Stage({"counters": "name"}, [self.queue, self.dead, self.relayed])
        self.stage.hear = self._check_sent_back
        self.post = Post()
        self.stage.provider = cast(Any, self.post)
        self.function = Function(
            self.stage, self._consumer(), self.queue, lambda _: None,
            dedup_window_seconds=WINDOW, effect_timeout_seconds=7,
        )  # fmt: skip
        self.mended = self.weeks = False
        self.doubts: dict[Process, set[str]] = {}

    @initialize(bodies=st.lists(st.sampled_from(BODIES), min_size=5, max_size=12))
    def events_die_and_do_not(self, bodies: list[str]) -> None:
        """Each is on its last receive: what fails is dead at once."""
        for body in bodies:
            message = self.stage.queues.send(self.queue, body, {})
            message.handles += [f"{message.id}.{number}" for number in range(1, 5)]

    @precondition(lambda self: self.stage.running < 2 and self._visible())
    @rule(count=st.integers(1, 10), troubles=TROUBLES, picks=PICKS)
    def the_consumer_works(
        self, count: int, troubles: list[Trouble | None], picks: list[int]
    ) -> None:
        self.function.deliver(self._visible()[:count], troubles)
        self.time_passes(0, picks)

    @precondition(lambda self: self.stage.running < 2 and self.dead.waiting)
    @rule(troubles=TROUBLES, picks=PICKS)
    def an_operator_sends_letters_back(
        self, troubles: list[Trouble | None], picks: list[int]
    ) -> None:
        self.stage.start("operator", 10 * 60, self._redrive, troubles)
        self.time_passes(0, picks)

    @rule(seconds=st.sampled_from([0, 1, HELD]), picks=PICKS)
    def time_passes(self, seconds: int, picks: list[int]) -> None:
        self.stage.tasks.now += seconds
        for pick in picks:
            self.stage.turn(pick)

    @precondition(lambda self: not self.mended)
    @rule()
    def the_consumer_is_mended(self) -> None:
        self.mended = True

    @precondition(lambda self: not self.queue.waiting and not self.stage.running)
    @rule(days=st.sampled_from([20, 44, 46]))
    def weeks_pass(self, days: int) -> None:
        """Only while nothing waits in the queue: SQS would delete it before."""
        self.stage.rest()
        if not self.queue.waiting:
            self.weeks = True
            self.stage.tasks.now += days * DAY
            for key, row in self.stage.rows(DEDUP).items():
                if row.get("expires_at", self.stage.tasks.now) < self.stage.tasks.now:
                    self.stage.tables.remove(DEDUP, key)

    @invariant()
    def no_letter_is_lost(self) -> None:
        there = {message.body for message in self.queue.waiting + self.dead.waiting}
        lost = {message.body for message in self.queue.ever} - there
        assert all(self._counted(body) for body in lost), lost

    @invariant()
    def nothing_counts_twice(self) -> None:
        rows = self.stage.rows("counters")
        assert all(row["times"] == 1 for row in rows.values()), rows
        assert len({name.partition(" ")[0] for name in rows}) == len(rows)

    @invariant()
    def nothing_is_mailed_twice(self) -> None:
        assert all(times == 1 for times in self.post.sent.values())

    def teardown(self) -> None:
        self.stage.close(self._all_comes_to_its_end)

    def _all_comes_to_its_end(self) -> None:
        """Without trouble, what can be worked off is: what stays has a reason to."""
        self.stage.rest()
        self.mended = True
        self.function.replace()
        for _ in range(3):
            self.stage.tasks.now += HELD
            self.stage.start("operator", 10 * 60, self._redrive)
            self.stage.rest()
            while messages := self.queue.waiting:
                self.stage.tasks.now = max(self.stage.tasks.now, messages[0].visible_at)
                self.function.deliver(messages[:10])
                self.stage.rest()
        self.no_letter_is_lost()
        self.nothing_counts_twice()
        self.nothing_is_mailed_twice()
        for letter in self.dead.waiting:
            assert self._may_stay(letter), (reason_of(letter), letter.body)

    def _may_stay(self, letter: Message) -> bool:
        reason = reason_of(letter)
        if letter.body in BODIES[len(EVENTS) + len(CONFLICTS) :]:
            return reason in (Reason.UNPARSEABLE, Reason.NO_KEY, Reason.UNKNOWN_TYPE)
        if self.weeks:
            return True  # what may be forgotten is not sent back
        event = json.loads(letter.body)["id"]
        conflict = any(name.startswith(f"{event} ") for name in self.stage.rows("counters"))
        return (conflict and not self._counted(letter.body)) or event in self._doubts()

    def _redrive(self, process: Process) -> None:
        places = {"notes": SimpleNamespace(queue=self.queue, dead_letters=self.dead)}
        service: Any = SimpleNamespace(places=places, relay_dead_letters=self.relayed)
        with suppress(ClientError, BotoCoreError):
            redrive(service)

    def _consumer(self) -> Consumer:
        consumer = Consumer("notes")
        counters = consumer.table("counters")
        mail = consumer.effect("mail", Note, policy=Policy.AT_MOST_ONCE)(self._mail)

        def add(event: Note, tx: Transaction) -> None:
            key = {"name": f"{tx.event.id} {event.does}"}
            tx.update(counters, key, "ADD times :one", {":one": 1})

        @consumer.handles("noted", Note)
        def work(event: Note, tx: Transaction) -> None:
            match event.does:
                case "mails":
                    tx.perform(mail, Note(tx.event.id))
                    return
                case "stumbles" if not self.mended:
                    raise ValueError
                case "poisons" if not self.mended:
                    raise PermanentError
                case "refuses" if not self.mended:
                    raise No
                case "writes twice" if not self.mended:
                    add(event, tx)
            add(event, tx)

        @consumer.completes(mail)
        def sent(event: Note, outcome: str, tx: Transaction) -> None:
            add(event, tx)

        return consumer

    def _mail(self, request: Note, call: Call) -> str:
        asked = Attempt(PROVIDER, "mail", request.does, "", site())
        answer = self.stage.respond(asked)
        if isinstance(answer, Response):
            raise NotDone("the post was never reached")
        return str(answer)

    def _check_sent_back(self, call: Attempt) -> None:
        """What is in doubt from the look at the records to the sending is not to be sent."""
        process = self.stage.process
        if call.site.startswith("once.ops.") and call.operation == "BatchGetItem":
            self.doubts[process] = self._doubts()
        elif call.operation == "SendMessageBatch":
            bodies = [entry["MessageBody"] for entry in call.request["Entries"]]
            sent = {json.loads(body)["id"] for body in bodies if '"mails"' in body}
            assert sent.isdisjoint(self.doubts.get(process, set()) & self._doubts())

    def _doubts(self) -> set[str]:
        """The mails that may have been sent, as far as their records tell."""
        rows = self.stage.rows(DEDUP).items()
        pending = {key: row for key, row in rows if row["state"] == State.PENDING}
        return {
            key.rpartition("#")[2]
            for key, row in pending.items()
            if row["standing"] != Standing.NOT_DONE
        }

    def _visible(self) -> list[Message]:
        return [m for m in self.queue.waiting if m.visible_at <= self.stage.tasks.now]

    def _counted(self, body: str) -> bool:
        if body == NONSENSE:
            return False
        event = json.loads(body)
        does = event.get("data", {}).get("does")
        return f"{event['id']} {does}" in self.stage.tables.items["counters"]


TestLetters = Letters.TestCase
TestLetters.settings = quick(80)
