"""Effects under the three policies, at a provider that forgets its keys.

The model counts at the provider, and sees who is at which effect. `k…` is charged under a key,
`l…` at least once, `m…` at most once.
"""

import json
from typing import TYPE_CHECKING, Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct

from demo.payment_sandbox.http_messages import Response
from once.consumer import Consumer
from once.errors import KeySpent, NotDone
from once.handlers.effect_declaration import Call, Policy
from once.handlers.transaction import Transaction
from once.schema import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS, Reason
from once.testing.events import cloud_event
from proof.shop.doubts import reason_of
from proof.world.calls import PROVIDER, site
from proof.world.calls import Call as Attempt
from proof.world.queues import Message, Queue
from tests.proof.machine_functions import Function
from tests.proof.machine_outside import FORGOTTEN, Provider
from tests.proof.machines import PICKS, TROUBLES, Stage, Trouble, quick

if TYPE_CHECKING:
    from proof.world.tasks import Process

HOUR = 60 * 60
KEY_SECONDS = 23 * HOUR
POLICIES = {
    "k": Policy.PROVIDER_KEY,
    "l": Policy.AT_LEAST_ONCE,
    "m": Policy.AT_MOST_ONCE,
}
IDS = ["k1", "k2", "l1", "m1"]
LEASE = 30
LATER = st.sampled_from([0, 0, 0, 31, LEASE + CLOCK_MARGIN_SECONDS + 1, 12 * HOUR, FORGOTTEN])
SKEWS = st.sampled_from([0, 60, -CLOCK_SKEW_SECONDS, CLOCK_SKEW_SECONDS])
"""By how many seconds the clock of a new function is fast."""
SPOILS = st.sampled_from(["", "", "done", "not done"])


class Charge(Struct, frozen=True):
    """What the provider is asked for; also what every event says."""

    name: str


class Charges(RuleBasedStateMachine):
    """One consumer with three effects, and up to three of its functions side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.dead = Queue("dead")
        self.queue = Queue("tills", visibility=180, dead_letters=self.dead)
        self.stage = Stage({"counters": "name"}, [self.queue, self.dead])
        self.provider = Provider(self.stage.tasks.clock)
        self.stage.provider = cast(Any, self.provider)
        self.function = Function(
            self.stage, self._consumer(), self.queue, self._check_acknowledged,
            dedup_window_seconds=1000 * 24 * HOUR, effect_timeout_seconds=7,
        )  # fmt: skip
        self.at_it: dict[str, Process] = {}
        self.in_doubt: set[str] = set()
        self.faults: list[str] = []
        for name in IDS * 2:
            self.stage.queues.send(self.queue, json.dumps(_event(name)), {})

    @precondition(lambda self: self.stage.running < 3)
    @rule(
        later=LATER, pick=st.integers(0, 7), spoils=SPOILS, new=st.booleans(),
        troubles=TROUBLES, picks=PICKS, skew=SKEWS,
    )  # fmt: skip
    def a_message_is_delivered(
        self, *, later: int, pick: int, spoils: str, new: bool, troubles: list[Trouble | None],
        picks: list[int], skew: int,
    ) -> None:  # fmt: skip
        self.stage.tasks.now += later
        self.provider.spoils = spoils
        if new:
            self.function.replace()
        self.function.deliver([self.queue.ever[pick]], troubles, skew=skew)
        self.functions_go_on(picks)

    @precondition(lambda self: self.stage.running < 2)
    @rule(pick=st.integers(0, 7), skew=SKEWS, picks=PICKS)
    def a_message_comes_twice_at_once(self, *, pick: int, skew: int, picks: list[int]) -> None:
        self.function.replace()
        for fast_by in (0, skew):
            self.function.deliver([self.queue.ever[pick]], skew=fast_by)
        self.functions_go_on(picks)

    @precondition(lambda self: self.stage.running)
    @rule(picks=PICKS)
    def functions_go_on(self, picks: list[int]) -> None:
        for pick in picks:
            self.stage.turn(pick)

    @invariant()
    def nobody_calls_who_must_not(self) -> None:
        assert not self.faults, self.faults

    @invariant()
    def only_what_may_be_charged_twice_is(self) -> None:
        assert all(n == 1 or name.startswith("l") for name, n in self.provider.charges.items() if n)

    @invariant()
    def what_is_done_was_charged_and_written_down_once_by_its_owner(self) -> None:
        done = [record["dynamodb"] for record in self.stage.tables.stream if _is_done(record)]
        names = [_id_of(images["Keys"]["pk"]["S"]) for images in done]
        assert len(names) == len(set(names))
        rows = self.stage.rows("counters")
        assert rows.keys() == set(names)
        for name, images in zip(names, done, strict=True):
            assert self.provider.charges[name] >= 1
            assert rows[name]["times"] == 1
            owner = self.stage.owners[images["OldImage"]["owner"]["S"]]
            assert rows[name]["completed_by"] == owner.name

    @invariant()
    def only_what_nobody_can_know_is_given_up(self) -> None:
        records = {_id_of(key): row for key, row in self.stage.rows("dedup").items()}
        for letter in self.dead.ever:
            reason, name = reason_of(letter), _name(letter)
            if reason == Reason.EFFECT_UNKNOWN:
                record = records[name]
                assert (record["state"], record.get("standing") == "not-done") == ("pending", False)
                assert name.startswith("m") or self._is_old(name)
            else:
                assert reason in (Reason.RETRIES_EXHAUSTED, Reason.NOT_TRIED, Reason.UNFINISHED)

    def teardown(self) -> None:
        self.stage.close(self._all_comes_to_its_end)

    def _all_comes_to_its_end(self) -> None:
        """Without trouble, after every lease and delay, all is done or waits for a person."""
        self.stage.rest()
        self.stage.tasks.now += LEASE + 2 * CLOCK_MARGIN_SECONDS
        self.provider.spoils = ""
        self.function.replace()
        known = len(self.dead.ever)
        for name in {_name(message) for message in self.queue.ever}:
            message = self.stage.queues.send(self.queue, json.dumps(_event(name)), {})
            self.function.deliver([message])
            self.stage.rest()
            assert message.deleted
        self.nobody_calls_who_must_not()
        self.only_what_may_be_charged_twice_is()
        self.what_is_done_was_charged_and_written_down_once_by_its_owner()
        self.only_what_nobody_can_know_is_given_up()
        given_up = {_name(letter) for letter in self.dead.ever[known:]}
        assert {reason_of(letter) for letter in self.dead.ever[known:]} <= {Reason.EFFECT_UNKNOWN}
        done = self.stage.rows("counters").keys()
        assert {_name(message) for message in self.queue.ever} == done | given_up
        assert not done & given_up

    def _consumer(self) -> Consumer:
        consumer = Consumer("tills")
        counters = consumer.table("counters")
        effects = {}
        for letter, policy in POLICIES.items():
            seconds = KEY_SECONDS if policy is Policy.PROVIDER_KEY else 0
            declare = consumer.effect(
                f"charge_{letter}", Charge, policy=policy, key_lifetime_seconds=seconds
            )
            effects[letter] = declare(self._charge)
        effects["k"].looks_up(self._look_up)

        def complete(event: Charge, outcome: str, tx: Transaction) -> None:
            by = {":by": self.stage.process.name, ":one": 1}
            change = "SET completed_by = :by ADD times :one"
            tx.update(counters, {"name": event.name}, change, by)

        for effect in effects.values():
            consumer.completes(effect)(complete)

        @consumer.handles("bought", Charge)
        def pay(event: Charge, tx: Transaction) -> None:
            tx.perform(effects[event.name[0]], Charge(event.name))

        return consumer

    def _charge(self, request: Charge, call: Call) -> str:
        """The effect itself; whoever is killed in it is at it no more."""
        name = request.name
        self._check_call(name, call.key)
        before = name in self.in_doubt
        self.in_doubt.add(name)
        self.at_it[name] = self.stage.process
        try:
            said = self.stage.respond(Attempt(PROVIDER, "charge", (name, call.key), "", site()))
        finally:
            self.at_it.pop(name, None)
        if isinstance(said, Response):
            if not before:
                self.in_doubt.discard(name)
            raise NotDone("the provider was never reached")
        if said == "spent":
            raise KeySpent("the provider has saved an error")
        return str(said)

    def _look_up(self, request: Charge, call: Call) -> str | None:
        return "paid" if self.provider.charges[request.name] else None

    def _check_call(self, name: str, key: str) -> None:
        if name.startswith("m") and name in self.in_doubt:
            self.faults.append(f"{name} may have been done, and is done again")
        now = self.stage.tasks.now
        if name.startswith("k") and now - self.provider.first_asked.get(key, now) >= FORGOTTEN:
            self.faults.append(f"the provider may have forgotten {key}")
        other = self.at_it.get(name)
        if name.startswith("k"):  # a fast clock may take it over early: the key collapses the calls
            return
        if other is not None and not other.dead and other.deadline > now:
            self.faults.append(f"{other.name} is still at {name}")

    def _is_old(self, name: str) -> bool:
        first = min(message.sent_at for message in self.queue.ever if _name(message) == name)
        return self.stage.tasks.now - first >= KEY_SECONDS - 2 * CLOCK_MARGIN_SECONDS

    def _check_acknowledged(self, message: Message) -> None:
        name = _name(message)
        dead = any(_name(letter) == name for letter in self.dead.ever)
        assert dead or name in self.stage.rows("counters"), f"acknowledged in vain: {name}"


def _event(name: str) -> dict[str, Any]:
    return cloud_event("bought", {"name": name}, event_id=name)


def _name(message: Message) -> str:
    return str(json.loads(message.body)["id"])


def _id_of(pk: str) -> str:
    return pk.rpartition("#")[2]


def _is_done(record: dict[str, Any]) -> bool:
    return bool(record["dynamodb"]["NewImage"]["state"]["S"] == "done")


TestCharges = Charges.TestCase
TestCharges.settings = quick(50)
