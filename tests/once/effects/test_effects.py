"""An effect from its intent to its outcome: the same key and bytes always, and one charge."""

from typing import Any

import pytest

from once.commit.dedup_record import StoredRecord
from once.errors import NotDone
from once.handlers.actions import serialize
from once.handlers.transaction import Transaction
from once.testing import inject, refused
from tests.in_memory import Start
from tests.once.effects.provider import (
    LEASE,
    LIFETIME,
    NOW,
    SETTINGS,
    Charge,
    Killed,
    Provider,
    Till,
    after,
    consumer_of,
)
from tests.once.support import COUNTERS, Note, amounts, calls, note, reasons

WRITE = "TransactWriteItems"


def test_an_effect_is_called_and_its_outcome_commits_with_state_and_events(till: Till) -> None:
    with calls(till.aws.runtime.dynamodb) as made:
        assert till.deliver(note("a", 7))
    assert [name for name, _ in made] == [WRITE, WRITE]
    assert [len(parameters["TransactItems"]) for _, parameters in made] == [1, 2]
    assert list(till.provider.charges.values()) == [b'{"name":"a","amount":7}']
    assert amounts(till.aws) == {"a": 7}
    assert (till.standing, till.record["outcome"]) == ("done", "accepted")
    assert till.published == ["paid"]


def test_x1_the_intent_is_in_the_table_when_the_provider_is_called(till: Till) -> None:
    found: list[dict[str, Any]] = []
    till.provider.plan = [lambda: found.append(till.record)]
    till.deliver(note("a", 7))
    [pending] = found
    intent = StoredRecord.read(serialize(pending)).intent
    assert intent is not None
    assert [(intent.provider_key, intent.request)] == till.provider.calls
    assert intent.lease_until == (NOW + LEASE) * 1000
    assert intent.key_expires_at == NOW + LIFETIME
    assert len(intent.owner) == 32
    assert (intent.effect, intent.standing, pending["state"]) == ("charge", "in-flight", "pending")


def test_a_pending_record_never_expires_and_a_done_one_says_where_to_look(till: Till) -> None:
    found: list[dict[str, Any]] = []
    till.provider.plan = [lambda: found.append(till.record)]
    till.deliver(note())
    assert "expires_at" not in found[0]
    assert "outbox" not in found[0]
    done = till.record
    assert (done["effect"], done["provider_key"]) == ("charge", till.provider.calls[0][0])
    assert "expires_at" in done
    assert done.keys().isdisjoint({"owner", "request", "lease_until", "standing", "key_expires_at"})


@pytest.mark.parametrize("fault", [refused("AccessDeniedException"), refused("Validation")])
def test_x1_where_the_intent_does_not_commit_nothing_is_called(till: Till, fault: Any) -> None:
    with inject(till.aws.runtime.dynamodb, WRITE, fault) as left:
        assert not till.deliver(note())
    assert left == []
    assert till.provider.calls == []
    assert till.aws.items("dedup") == []


def test_x1_a_charge_whose_answer_is_lost_is_called_again_with_the_same_key_and_bytes(
    till: Till,
) -> None:
    till.provider.plan = [after(TimeoutError()), after(ConnectionError()), None]
    assert till.deliver(note())
    first, second, third = till.provider.calls
    assert first == second == third
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


def test_x1_after_a_redelivery_too_the_key_and_the_bytes_are_the_same(till: Till) -> None:
    event = note()
    till.provider.plan = [after(TimeoutError())] * 3
    assert not till.deliver(event)
    assert till.standing == "unknown"
    assert till.deliver(event, receive_count=2)
    assert len(till.provider.calls) == 4
    assert len(set(till.provider.calls)) == len(till.provider.charges) == 1
    assert (till.standing, amounts(till.aws)) == ("done", {"a": 1})


def test_x1_the_bytes_are_those_of_the_record_whatever_the_handler_computes_by_now(
    start: Start, provider: Provider
) -> None:
    prices = iter([5, 6, 7])

    def pay(event: Note, tx: Transaction) -> None:
        tx.perform(consumer.effects["charge"], Charge(event.name, next(prices)))

    consumer = consumer_of(provider, handler=pay)
    till = Till(start(consumer, **SETTINGS), consumer, provider)
    provider.plan = [after(TimeoutError())] * 3
    event = note()
    till.deliver(event)
    assert till.deliver(event)
    assert {request for _, request in provider.calls} == {b'{"name":"a","amount":5}'}


def test_x1_an_effect_is_finished_even_where_the_handler_asks_for_none_any_more(
    start: Start, provider: Provider
) -> None:
    asks = iter([True, False])

    def pay(event: Note, tx: Transaction) -> None:
        if next(asks):
            tx.perform(consumer.effects["charge"], Charge(event.name, 1))
        else:
            tx.put(COUNTERS, {"name": "something else", "amount": 9})

    consumer = consumer_of(provider, handler=pay)
    till = Till(start(consumer, **SETTINGS), consumer, provider)
    provider.plan = [Killed()]
    event = note()
    assert till.killed(event)
    till.later()
    assert till.deliver(event)
    assert amounts(till.aws) == {"a": 1}


def test_x1_a_duplicate_of_what_is_done_never_calls(till: Till) -> None:
    event = note()
    till.deliver(event)
    done = till.record
    till.later(10 * LIFETIME)
    assert till.deliver(event, receive_count=3)
    assert len(till.provider.calls) == 1
    assert till.record == done


def test_x1_two_events_are_two_charges_under_two_keys(start: Start, provider: Provider) -> None:
    consumer = consumer_of(provider)
    till = Till(start(consumer, **SETTINGS), consumer, provider)
    assert till.deliver(note("a"))
    assert till.deliver(note("b"))
    assert len(provider.charges) == 2
    assert all(len(key) <= 255 for key in provider.charges)


def test_x1_a_record_that_was_deleted_is_begun_anew_under_the_same_key(till: Till) -> None:
    event = note()

    def delete() -> None:
        key = {"pk": {"S": till.record["pk"]}}
        till.aws.dynamodb.delete_item(TableName="dedup", Key=key)

    till.provider.plan = [delete]
    with calls(till.aws.runtime.dynamodb) as made:
        assert not till.deliver(event)
    # The intent, the completion, and the hand-back: nothing that would try in vain.
    assert [name for name, _ in made if name == WRITE] == [WRITE] * 3
    assert till.aws.items("dedup") == till.aws.items("counters") == []
    assert till.deliver(event)
    assert till.provider.keys == ["1", "1"]
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}


def test_x1_another_event_under_a_pending_key_is_quarantined_and_disturbs_nothing(
    till: Till,
) -> None:
    event = note(event_id="e")
    till.provider.plan = [Killed()]
    assert till.killed(event)
    pending = till.record
    assert till.deliver(note(amount=2, event_id="e"))
    assert reasons(till.aws) == ["key-conflict"]
    assert till.record == pending
    assert len(till.provider.calls) == 1


def test_what_was_certainly_not_done_is_tried_three_times_and_then_by_redelivery(
    till: Till,
) -> None:
    event = note()
    till.provider.plan = [NotDone()] * 3
    assert not till.deliver(event)
    assert len(till.provider.calls) == 3
    assert len(till.aws.slept) == 2
    assert till.standing == "not-done"
    assert till.deliver(event)
    assert amounts(till.aws) == {"a": 1}
