"""The effect ledger: only the owner of a pending record changes it, and its lease and clock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from once.dynamodb_rules import serialize
from once.effects.declaration import Effect, Policy
from once.effects.ledger import Intent, not_done, pending_update, settled
from once.errors import InFlight, Unanswered
from once.events.identity import key_hash
from once.names import CLOCK_MARGIN_SECONDS, Limits, Standing
from once.testing import FakeAws, Fault, answer_lost, cancelled, inject, never_sent, refused
from tests.in_memory import Start
from tests.once.effects.provider import (
    LAST_RECEIVE,
    LEASE,
    LIFETIME,
    NOW,
    WRITE,
    Charge,
    Make,
    Provider,
    Step,
    Till,
    after,
)
from tests.once.support import Bench, Killed, Log, amounts, calls, note

PK = "notes#event"
EFFECT: Effect[Charge, Any] = Effect(
    "charge", Charge, Policy.PROVIDER_KEY, LIFETIME, Provider().charge
)


class Pending(Bench):
    """A pending record whose lease ends in ten seconds, and the ledger that changes it."""

    def __init__(self, aws: FakeAws) -> None:
        super().__init__(aws)
        aws.time = NOW
        self.opened = self.open()
        self.store(self.opened)

    @property
    def stored(self) -> Intent:
        [item] = self.aws.items("dedup")
        return Intent.read(serialize(item))

    def store(self, intent: Intent, state: str = "pending") -> None:
        item = serialize({"pk": PK, "state": state}) | intent.item()
        self.client.put_item(TableName="dedup", Item=item)

    def later(self, seconds: float = 10) -> None:
        assert self.aws.time is not None
        self.aws.time += seconds

    def open(
        self, effect: Effect[Any, Any] = EFFECT, request: bytes = b"{}", pk: str = PK
    ) -> Intent:
        return self.ledger.open(effect, request, pk, 10)

    def take_over(self, found: Intent, lease_seconds: float = 10) -> Intent:
        return self.ledger.take_over(EFFECT, PK, found, lease_seconds)

    def renew_key(self, intent: Intent) -> Intent:
        return self.ledger.renew_key(EFFECT, PK, intent)

    def hand_back(self, intent: Intent, standing: Standing) -> bool:
        return self.ledger.hand_back(PK, intent, standing)


@pytest.fixture
def pending(start: Start) -> Pending:
    return Pending(start())


@pytest.mark.parametrize("policy", Policy)
def test_an_intent_is_read_as_it_was_written(pending: Pending, policy: Policy) -> None:
    intent = pending.open(replace(EFFECT, policy=policy), b'{"name":"\xc3\xa9"}')
    assert Intent.read(intent.item()) == intent
    assert intent.key_expires_at == (NOW + LIFETIME if policy is Policy.PROVIDER_KEY else None)


def test_a_provider_key_derives_from_the_event_and_an_owner_is_random(pending: Pending) -> None:
    again, other = pending.open(), pending.open(pk="notes#other")
    assert again.provider_key == pending.opened.provider_key != other.provider_key
    assert again.owner != pending.opened.owner
    assert PK not in again.provider_key


def test_every_change_is_a_transaction_of_one_update(pending: Pending) -> None:
    # The function's role allows writes only inside transactions.
    with calls(pending.client) as made:
        renewed = pending.renew_key(pending.opened)
        pending.hand_back(renewed, Standing.UNKNOWN)
        pending.take_over(pending.stored)
    assert [name for name, _ in made] == [WRITE] * 3
    assert all([*entry] == ["Update"] for _, p in made for entry in p["TransactItems"])


def test_an_effect_is_settled_by_hand_and_called_again_when_it_was_not_done(
    pending: Pending,
) -> None:
    opened = pending.opened
    done = settled(opened, '{"returned":1}', "by a person")
    again = not_done(done, "by another", new_key=True)
    for old, new in ((opened, done), (done, again)):
        update = pending_update("dedup", PK, old, new)
        pending.client.transact_write_items(TransactItems=[{"Update": update}])
        assert pending.stored == new  # the second one has no outcome any more
    assert len({opened.owner, done.owner, again.owner}) == 3  # who called before writes no more
    settlement = replace(opened, owner=done.owner, settlement="by a person")
    assert done == replace(settlement, standing=Standing.SETTLED, outcome='{"returned":1}')
    settlement = replace(opened, owner=again.owner, settlement="by another")
    key = opened.provider_key[:-1] + "2"
    assert again == replace(settlement, standing=Standing.NOT_DONE, provider_key=key)
    assert not_done(done, "").provider_key == opened.provider_key


def test_a_lease_ends_to_the_millisecond(pending: Pending) -> None:
    pending.later(9.5)
    with pytest.raises(InFlight, match="is at the effect 'charge' for at most 0 s more") as raised:
        pending.take_over(pending.opened)
    assert raised.value.seconds == 0.5
    assert pending.stored == pending.opened
    pending.later(0.5)
    assert pending.take_over(pending.opened, 7) == pending.stored
    assert pending.stored.lease_until == (NOW + 10 + 7) * 1000


@pytest.mark.parametrize("standing", [Standing.NOT_DONE, Standing.UNKNOWN])
def test_a_hand_back_frees_an_effect_before_its_lease_ends(
    pending: Pending, standing: Standing
) -> None:
    pending.hand_back(pending.opened, standing)
    pending.later(1)
    mine = pending.take_over(pending.stored)
    assert mine == pending.stored
    assert mine.standing is Standing.IN_FLIGHT
    assert mine.key_expires_at == NOW + LIFETIME + (standing is Standing.NOT_DONE)


MEANWHILE: dict[str, tuple[Callable[[Pending], object], bool]] = {
    "taken over": (lambda found: found.take_over(found.opened), True),
    "done": (lambda found: found.store(found.opened, state="done"), True),
    # With the old key back in the record, the renewed key would count as never used, although its
    # owner calls with it.
    "its key renewed": (lambda found: found.renew_key(found.opened), True),
    "handed back": (lambda found: found.hand_back(found.opened, Standing.NOT_DONE), False),
}


@pytest.mark.parametrize(("change", "is_lost"), MEANWHILE.values(), ids=MEANWHILE)
def test_a_record_that_changed_meanwhile_is_not_taken_over_or_changed(
    pending: Pending, change: Callable[[Pending], object], *, is_lost: bool
) -> None:
    pending.later()
    change(pending)
    stored = pending.stored
    with pytest.raises(InFlight, match="another delivery took over 'charge'") as raised:
        pending.take_over(pending.opened)
    assert raised.value.seconds == 0  # the new owner's lease is not known
    if is_lost:
        with pytest.raises(InFlight):
            pending.renew_key(pending.opened)
        assert pending.hand_back(pending.opened, Standing.NOT_DONE)  # there is nothing to release
    assert pending.stored == stored


def test_a_renewed_key_has_the_next_number_and_its_own_lifetime(pending: Pending) -> None:
    pending.later(5)
    renewed = pending.opened
    for _ in range(10):
        renewed = pending.renew_key(renewed)
    assert renewed.owner != pending.opened.owner
    assert renewed == pending.stored
    assert renewed == replace(
        pending.opened,
        provider_key=pending.opened.provider_key[:-1] + "11",
        key_expires_at=int(NOW) + 5 + LIFETIME,
        owner=renewed.owner,
    )


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (cancelled("TransactionConflict"), "TransactionCanceledException"),
        (cancelled("ThrottlingError"), "DynamoDB throttled it"),
        (refused("ThrottlingException"), "DynamoDB throttled it"),
        (refused("AccessDeniedException"), "ClientError AccessDeniedException"),
        (refused("InternalServerError", status=500), "InternalServerError"),
        (refused("TransactionCanceledException"), "TransactionCanceledException"),
        (never_sent(), "ReadTimeoutError"),
    ],
    ids=[
        "conflict",
        "throttled item",
        "throttled",
        "denied",
        "server error",
        "no reasons",
        "no answer",
    ],
)
def test_a_takeover_that_fails_names_the_error(pending: Pending, fault: Fault, error: str) -> None:
    pending.later()
    text = f"^the pending record could not be changed: .*{error}$"
    with inject(pending.client, WRITE, fault), pytest.raises(Unanswered, match=text):
        pending.take_over(pending.opened)
    assert pending.stored == pending.opened


@pytest.mark.parametrize("fault", [answer_lost(), never_sent()], ids=["ours", "not ours"])
def test_a_takeover_without_an_answer_is_handed_back(pending: Pending, fault: Fault) -> None:
    pending.hand_back(pending.opened, Standing.NOT_DONE)
    with inject(pending.client, WRITE, fault), pytest.raises(Unanswered):
        pending.take_over(pending.stored)
    assert pending.stored.standing is Standing.NOT_DONE
    assert pending.take_over(pending.stored) == pending.stored


def test_a_hand_back_that_fails_logs_the_kind_of_error_only(pending: Pending) -> None:
    log, mine = Log(pending.aws), pending.opened
    with inject(pending.client, WRITE, *[refused("AccessDeniedException")] * 3):
        assert not pending.hand_back(mine, Standing.UNKNOWN)
    [line] = log.lines()
    assert (line["message"], line["error"]) == ("effect not handed back", "Unanswered")
    assert line["key_hash"] == key_hash(PK)
    assert not any(secret in log.text() for secret in (PK, mine.provider_key, mine.owner))


# Ownership of an effect: its lease, takeovers, and functions whose clocks differ.


UNKNOWN = after(TimeoutError())
LONGEST_TIMEOUT_SECONDS = 900


@contextmanager
def ahead(till: Till, seconds: float) -> Iterator[None]:
    """Run a function whose clock is ahead of the others'."""
    till.later(seconds)
    try:
        yield
    finally:
        till.later(-seconds)


def deliver_twice(till: Till, event: Any, seconds: float) -> tuple[bool, bool]:
    """Deliver an event again during its first call, to a function whose clock is ahead.

    Returns whether each delivery was acknowledged.
    """
    second: list[bool] = []

    def meanwhile() -> None:
        with ahead(till, seconds):
            second.append(till.deliver(event))

    till.provider.plan = [meanwhile]
    first = till.deliver(event)
    return first, second[0]


MARGIN_POLICIES = [Policy.AT_MOST_ONCE, Policy.AT_LEAST_ONCE]


@pytest.mark.parametrize(
    ("policy", "seconds", "taken_over"),
    [
        (Policy.PROVIDER_KEY, 0, False),
        # A margin would only cause a delay: the provider answers both calls alike.
        (Policy.PROVIDER_KEY, 60, True),
        *product(MARGIN_POLICIES, [LEASE, 60, CLOCK_MARGIN_SECONDS], [False]),
    ],
)
def test_x1_an_effect_is_not_taken_over_while_a_second_call_could_do_harm(
    make: Make, policy: Policy, seconds: int, *, taken_over: bool
) -> None:
    till = make(policy=policy)
    assert deliver_twice(till, note(), seconds) == (True, taken_over)
    till.assert_paid_once(calls=1 + taken_over)


def test_a_key_near_its_expiry_is_not_unknown_while_its_owner_is_calling(till: Till) -> None:
    event = till.leave_pending()
    till.later(LIFETIME - CLOCK_MARGIN_SECONDS - 1)  # its last takeover
    assert deliver_twice(till, event, 60) == (True, False)
    till.assert_paid_once(calls=2)


def test_the_delay_until_a_takeover_is_within_the_limit_of_sqs(make: Make) -> None:
    till, event = make(Killed(), policy=Policy.AT_MOST_ONCE), note()
    with pytest.raises(Killed):
        till.deliver(event, remaining_ms=LONGEST_TIMEOUT_SECONDS * 1000)
    with ahead(till, -CLOCK_MARGIN_SECONDS), till.delays() as delays:
        assert not till.deliver(event)
    assert delays == [LONGEST_TIMEOUT_SECONDS + 2 * CLOCK_MARGIN_SECONDS]
    assert delays[0] + LONGEST_TIMEOUT_SECONDS < Limits.VISIBILITY_SECONDS


def test_functions_that_share_one_clock_need_no_margin(make: Make) -> None:
    till = make(policy=Policy.AT_LEAST_ONCE, margin=0)
    event = till.leave_pending()
    till.later(LEASE)
    assert till.deliver(event)


def test_x1_a_delivery_in_flight_is_delayed_until_the_lease_ends(till: Till) -> None:
    event = till.leave_pending(charged=True)
    with till.delays() as delays:
        till.later(10.5)
        assert not till.deliver(event)
        till.later(LEASE - 11.5)
        assert not till.deliver(event, receive_count=LAST_RECEIVE - 1)
    assert delays == [LEASE - 10, 1]
    assert till.aws.dead_letters() == []
    assert len(till.provider.calls) == 1
    till.later(1)
    assert till.deliver(event)


@pytest.mark.parametrize(
    ("plan", "calls"),
    [pytest.param([], 2, id="succeeds"), pytest.param([UNKNOWN] * 3, 5, id="hands back")],
)
def test_x1_an_overtaken_owner_completes_only_if_its_successor_gave_up(
    till: Till, plan: list[Step], calls: int
) -> None:
    def overtake() -> None:
        till.later()
        till.provider.plan = [*plan]
        till.deliver(event)
        till.provider.plan = []

    event, till.provider.plan = note(), [overtake]
    assert till.deliver(event)
    till.assert_paid_once(calls=calls)


def test_x1_an_overtaken_owner_leaves_the_effect_to_its_successor(till: Till) -> None:
    event, log = note(), Log(till.aws)

    def overtake() -> None:
        till.later()
        till.leave_pending(event)

    till.provider.plan = [overtake]
    with till.delays() as delays:
        assert not till.deliver(event)
    assert delays == [LEASE]
    assert amounts(till.aws) == {}
    assert till.standing == "in-flight"
    assert "not handed back" not in log.text()  # it does not try to
    till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=3)
