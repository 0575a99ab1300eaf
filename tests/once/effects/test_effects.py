"""An effect from its intent to its outcome: one key, one request and one charge."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from once.commit.dedup_record import StoredRecord
from once.effects.declaration import Policy
from once.errors import NotDone
from once.testing import Fault, refused
from once.transaction import Transaction, serialize
from tests.once.effects.provider import (
    LIFETIME,
    NOW,
    WRITE,
    Charge,
    Killed,
    Make,
    Till,
    after,
    kill,
)
from tests.once.support import COUNTERS, Note, calls, note, reasons

UNKNOWN = after(TimeoutError())


def test_an_outcome_commits_with_state_and_events(till: Till) -> None:
    with calls(till.aws.runtime.dynamodb) as made:
        assert till.deliver(note("a", 7))
    assert [(name, len(p["TransactItems"])) for name, p in made] == [(WRITE, 1), (WRITE, 2)]
    assert list(till.provider.charges.values()) == [b'{"name":"a","amount":7}']
    assert till.record["outcome"] == "accepted"
    till.assert_paid_once(calls=1, amount=7)


def test_x1_the_intent_is_in_the_table_when_the_provider_is_called(till: Till) -> None:
    found: list[dict[str, Any]] = []
    till.provider.plan = [lambda: found.append(till.record)]
    till.deliver(note("a", 7), remaining_ms=12_345)
    [pending] = found
    intent = StoredRecord.read(serialize(pending)).intent
    assert intent is not None
    assert [(intent.provider_key, intent.request)] == till.provider.calls
    assert intent.lease_until == NOW * 1000 + 12_345  # when Lambda ends the function
    assert intent.key_expires_at == NOW + LIFETIME
    assert len(intent.owner) == 32
    assert len(intent.provider_key) <= 255
    assert (intent.effect, intent.standing, pending["state"]) == ("charge", "in-flight", "pending")
    assert pending.keys().isdisjoint({"expires_at", "outbox"})  # it never expires


def test_x1_a_done_effect_is_never_called_again(till: Till) -> None:
    event = note()
    till.deliver(event)
    done = till.record
    assert (done["effect"], done["provider_key"]) == ("charge", till.provider.calls[0][0])
    assert "expires_at" in done
    assert done.keys().isdisjoint({"owner", "request", "lease_until", "standing", "key_expires_at"})
    till.later(10 * LIFETIME)
    assert till.deliver(event, receive_count=3)
    assert len(till.provider.calls) == 1
    assert till.record == done


@pytest.mark.parametrize("fault", [refused("AccessDeniedException"), refused("Validation")])
def test_x1_an_intent_that_does_not_commit_is_not_called(till: Till, fault: Fault) -> None:
    with till.faults(fault):
        assert not till.deliver(note())
    assert till.provider.calls == []
    assert till.aws.items("dedup") == []


def test_x1_a_call_without_an_answer_is_repeated_with_the_same_key_and_request(make: Make) -> None:
    till = make(UNKNOWN, after(ConnectionError()), None)
    assert till.deliver(note())
    till.assert_paid_once(calls=3)


def test_x1_a_redelivery_calls_with_the_same_key_and_request(make: Make) -> None:
    till, event = make(*[UNKNOWN] * 3), note()
    assert not till.deliver(event)
    assert till.standing == "unknown"
    assert till.deliver(event, receive_count=2)
    till.assert_paid_once(calls=4)


@pytest.mark.parametrize("again", [Charge("a", 6), None], ids=["another request", "no effect"])
def test_x1_a_redelivery_sends_the_stored_request_even_if_the_handler_changed(
    make: Make, again: Charge | None
) -> None:
    requests = iter([Charge("a", 5), again])

    def pay(event: Note, tx: Transaction) -> None:
        if request := next(requests):
            tx.perform(till.effect, request)
        else:
            tx.put(COUNTERS, {"name": "something else", "amount": 9})

    till = make(handler=pay)
    event = till.leave_pending()
    till.later()
    assert till.deliver(event)
    assert {request for _, request in till.provider.calls} == {b'{"name":"a","amount":5}'}
    till.assert_paid_once(calls=2)


def test_x1_an_effect_whose_record_was_deleted_starts_again_with_the_same_key(till: Till) -> None:
    def delete() -> None:
        key = {"pk": {"S": till.record["pk"]}}
        till.aws.dynamodb.delete_item(TableName="dedup", Key=key)

    event, till.provider.plan = note(), [delete]
    with calls(till.aws.runtime.dynamodb) as made:
        assert not till.deliver(event)
    # The intent, the completion and the hand-back, without retries.
    assert [name for name, _ in made if name == WRITE] == [WRITE] * 3
    assert till.aws.items("dedup") == till.aws.items("counters") == []
    assert till.deliver(event)
    till.assert_paid_once(calls=2)


def test_x1_a_key_conflict_with_a_pending_record_is_quarantined(till: Till) -> None:
    till.leave_pending(note(event_id="e"))
    pending = till.record
    assert till.deliver(note(amount=2, event_id="e"))
    assert reasons(till.aws) == ["key-conflict"]
    assert till.record == pending
    assert len(till.provider.calls) == 1


@pytest.mark.parametrize("policy", Policy)
def test_a_call_that_was_not_done_is_tried_three_times_and_then_redelivered(
    make: Make, policy: Policy
) -> None:
    till, event = make(*[NotDone()] * 3, policy=policy), note()
    assert not till.deliver(event)
    assert len(till.provider.calls) == 3
    assert len(till.aws.slept) == 2
    assert till.standing == "not-done"
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


KILLS = {
    "before the first write": (1, False),
    "after the first write": (1, True),
    "before the charge": (None, False),
    "after the charge": (None, True),
    "before the second write": (2, False),
    "after the second write": (2, True),
}


def kill_at(till: Till, write: int | None, *, done: bool) -> AbstractContextManager[None]:
    if write is None:
        till.provider.plan = [after(Killed()) if done else Killed()]
        return nullcontext()
    return kill(till.aws.runtime.dynamodb, write, done=done)


@pytest.mark.parametrize("first", KILLS)
@pytest.mark.parametrize("second", KILLS)
def test_x1_a_function_killed_at_any_two_points_charges_and_completes_once(
    till: Till, first: str, second: str
) -> None:
    event = note("a", 7)
    for write, done in (KILLS[first], KILLS[second]):
        with kill_at(till, write, done=done):
            till.killed(event)
        till.provider.plan = []
        till.later()
    assert till.deliver(event)
    till.assert_paid_once(calls=len(till.provider.calls), amount=7)
