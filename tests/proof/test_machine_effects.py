"""Machine of effects under the three policies, at a provider that forgets its keys.

The model counts executions at the provider, and knows which process is calling. Names that begin
with `k` are charged under a provider key, `l` at least once, `m` at most once.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test
from msgspec import Struct

from once.consumer import Consumer
from once.effects.declaration import Call, Effect, Policy
from once.effects.ledger import EffectLedger, Intent
from once.errors import NotDone
from once.names import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS, Reason
from once.testing.events import cloud_event
from once.transaction import Transaction
from proof.ledger import has_outcome
from proof.world.queues import Message, Queue
from tests.proof.machines import (
    FAULTS,
    KEY_LIFETIME,
    PICKS,
    Faults,
    Function,
    Machine,
    Provider,
    Stage,
    quick,
)

if TYPE_CHECKING:
    from proof.world.tasks import Process

HOUR, LEASE = 60 * 60, 30
KEY_SECONDS = 23 * HOUR
POLICIES = {"k": Policy.PROVIDER_KEY, "l": Policy.AT_LEAST_ONCE, "m": Policy.AT_MOST_ONCE}
IDS = ["k1", "k2", "l1", "m1"]
LATER = st.sampled_from([0, 0, 0, 31, LEASE + CLOCK_MARGIN_SECONDS + 1, 12 * HOUR, KEY_LIFETIME])
SKEWS = st.sampled_from([0, 60, -CLOCK_SKEW_SECONDS, CLOCK_SKEW_SECONDS])
SAVED_ERRORS = st.sampled_from(["", "", "done", "not done"])


class Charge(Struct, frozen=True):
    """The data of an event, and the request of an effect."""

    name: str


class Charges(Machine):
    """One consumer with three effects, and up to three concurrent invocations."""

    def __init__(self) -> None:
        super().__init__()
        self.dead = Queue("dead")
        self.queue = Queue("tills", visibility=180, dead_letters=self.dead)
        self.stage = Stage({"counters": "name"}, [self.queue, self.dead])
        self.provider = Provider(self.stage)
        self.function = Function(
            self.stage, self._consumer(), self.queue, self._check_acknowledged,
            dedup_window_seconds=1000 * 24 * HOUR, effect_timeout_seconds=7,
        )  # fmt: skip
        self.calling: dict[str, Process] = {}
        self.unknown: set[str] = set()
        self.forbidden_calls: list[str] = []
        for name in IDS * 2:
            self._send(name)

    @precondition(lambda self: self.stage.running < 3)
    @rule(
        seconds=LATER, pick=st.integers(0, 7), saves_error=SAVED_ERRORS, new=st.booleans(),
        faults=FAULTS, picks=PICKS, skew=SKEWS,
    )  # fmt: skip
    def deliver(
        self, *, seconds: int, pick: int, saves_error: str, new: bool, faults: Faults,
        picks: list[int], skew: int,
    ) -> None:  # fmt: skip
        self.stage.tasks.now += seconds
        self.provider.saves_error = saves_error
        if new:
            self.function.replace()
        self.function.deliver([self.queue.ever[pick]], faults, skew=skew)
        self.advance(picks)

    @precondition(lambda self: self.stage.running < 2)
    @rule(pick=st.integers(0, 7), skew=SKEWS, picks=PICKS)
    def deliver_to_two_processes(self, *, pick: int, skew: int, picks: list[int]) -> None:
        self.function.replace()
        for fast_by in (0, skew):
            self.function.deliver([self.queue.ever[pick]], skew=fast_by)
        self.advance(picks)

    @precondition(lambda self: self.stage.running)
    @rule(picks=PICKS)
    def advance_functions(self, picks: list[int]) -> None:
        self.advance(picks)

    @invariant()
    def no_forbidden_call_is_made(self) -> None:
        assert not self.forbidden_calls

    @invariant()
    def only_at_least_once_is_charged_twice(self) -> None:
        assert all(n == 1 or name.startswith("l") for name, n in self.provider.done.items() if n)

    @invariant()
    def a_completed_effect_was_charged_and_is_recorded_once_by_its_owner(self) -> None:
        changes = [record["dynamodb"] for record in self.stage.tables.stream]
        done = [images for images in changes if images["NewImage"]["state"]["S"] == "done"]
        names = [_id_of(images["Keys"]["pk"]["S"]) for images in done]
        assert len(names) == len(set(names))
        rows = self.stage.rows("counters")
        assert rows.keys() == set(names)
        for name, images in zip(names, done, strict=True):
            assert self.provider.done[name] >= 1
            assert rows[name]["times"] == 1
            owner = self.stage.owners[images["OldImage"]["owner"]["S"]]
            is_settled = images["OldImage"]["standing"]["S"] == "settled"  # by any process
            assert is_settled or rows[name]["completed_by"] == owner.name

    @invariant()
    def only_unknown_effects_are_dead_lettered(self) -> None:
        records = {_id_of(key): row for key, row in self.stage.rows("dedup").items()}
        for letter in self.dead.ever:
            reason, name = letter.reason, _name(letter)
            if reason == Reason.EFFECT_UNKNOWN:
                assert records[name].get("standing") != "not-done"
                assert records[name]["state"] == "pending" or has_outcome(letter)
                assert name.startswith("m") or self._is_old(name)
            else:
                assert reason in (Reason.RETRIES_EXHAUSTED, Reason.NOT_TRIED, Reason.UNFINISHED)

    def recover(self) -> None:
        """After every lease and delay, each effect is done or is dead-lettered as unknown."""
        self.stage.tasks.now += LEASE + 2 * CLOCK_MARGIN_SECONDS
        self.provider.saves_error = ""
        self.function.replace()
        known = len(self.dead.ever)
        for name in IDS:
            message = self._send(name)
            self.function.deliver([message])
            self.stage.rest()
            assert message.deleted
        assert {letter.reason for letter in self.dead.ever[known:]} <= {Reason.EFFECT_UNKNOWN}
        dead_lettered = {_name(letter) for letter in self.dead.ever[known:]}
        assert self.stage.rows("counters").keys() == set(IDS) - dead_lettered

    def _send(self, name: str) -> Message:
        body = json.dumps(cloud_event("bought", {"name": name}, event_id=name))
        return self.stage.queues.send(self.queue, body, {})

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
        name = request.name
        self._check_call(name, call.key)
        was_unknown = name in self.unknown
        self.unknown.add(name)
        self.calling[name] = self.stage.process
        try:
            return self.provider.request(name, call.key if name.startswith("k") else "")
        except NotDone:
            if not was_unknown:
                self.unknown.discard(name)
            raise
        finally:
            self.calling.pop(name, None)

    def _look_up(self, request: Charge, call: Call) -> str | None:
        return "done" if self.provider.done[request.name] else None

    def _check_call(self, name: str, key: str) -> None:
        now = self.stage.tasks.now
        if name.startswith("k"):
            # A fast clock may take it over early: the key prevents a second charge.
            if now - self.provider.first_used.get(key, now) >= KEY_LIFETIME:
                self.forbidden_calls.append(f"the provider may have forgotten {key}")
            return
        if name.startswith("m") and name in self.unknown:
            self.forbidden_calls.append(f"{name} may have been done, and is done again")
        other = self.calling.get(name)
        if other is not None and not other.dead and other.deadline > now:
            self.forbidden_calls.append(f"{other.name} is still calling {name}")

    def _is_old(self, name: str) -> bool:
        first = min(message.sent_at for message in self.queue.ever if _name(message) == name)
        return self.stage.tasks.now - first >= KEY_SECONDS - 2 * CLOCK_MARGIN_SECONDS

    def _check_acknowledged(self, message: Message) -> None:
        name = _name(message)
        dead = any(_name(letter) == name for letter in self.dead.ever)
        assert dead or name in self.stage.rows("counters"), f"acknowledged without effect: {name}"


def _name(message: Message) -> str:
    return str(json.loads(message.body)["id"])


def _id_of(pk: str) -> str:
    return pk.rpartition("#")[2]


TestCharges = Charges.TestCase
TestCharges.settings = quick(50)


@contextmanager
def without_clock_margin(policy: Policy) -> Iterator[None]:
    """Let the leases of one policy end by any function's clock."""
    check = EffectLedger._check

    def check_without(ledger: EffectLedger, effect: Effect[Any, Any], found: Intent) -> None:
        margin = 0 if effect.policy is policy else ledger._margin
        with patch.object(ledger, "_margin", margin):
            check(ledger, effect, found)

    with patch.object(EffectLedger, "_check", check_without):
        yield


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.AT_MOST_ONCE])
def test_a_lease_without_a_clock_margin_is_caught(policy: Policy) -> None:
    generated = settings(quick(1000), phases=[Phase.generate])
    with without_clock_margin(policy), pytest.raises(AssertionError):
        run_state_machine_as_test(Charges, settings=generated)
