"""What an ordinary fault must not turn into a dead letter, and what must not look harmless."""

import json
from collections.abc import Callable
from typing import Any

from once.errors import NotDone, PermanentError
from once.handlers.effect_declaration import Policy
from once.handlers.transaction import Transaction
from once.testing import answer_lost, cancelled, inject, refused
from tests.in_memory import Start
from tests.once.effects.provider import (
    Charge,
    Killed,
    Provider,
    Till,
    after,
    start_till,
)
from tests.once.support import (
    COUNTERS,
    Note,
    amounts,
    facts,
    invoke,
    note,
    reasons,
    record,
)
from tests.once.support import consumer_of as plain_consumer_of

WRITE = "TransactWriteItems"
CONFLICT = cancelled("TransactionConflict")
Handler = Callable[[Note, Transaction], None]


def assert_done_once(till: Till) -> None:
    assert reasons(till.aws) == []
    assert till.standing == "done"
    assert amounts(till.aws)["a"] == 1


def test_contention_at_the_intent_leaves_the_completion_all_its_attempts(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    at_completion = cancelled("TransactionConflict", "None")
    with inject(till.aws.runtime.dynamodb, WRITE, *[CONFLICT] * 10, None, at_completion) as left:
        assert till.deliver(note())
    assert left == []
    assert_done_once(till)


def test_a_hand_back_that_others_disturb_is_tried_again(start: Start, provider: Provider) -> None:
    till, event = start_till(start, provider, policy=Policy.AT_MOST_ONCE), note()
    provider.plan = [NotDone()] * 3
    with inject(till.aws.runtime.dynamodb, WRITE, None, CONFLICT):
        assert not till.deliver(event)
    assert till.standing == "not-done"
    assert till.deliver(event)
    assert_done_once(till)


def test_a_takeover_without_an_answer_hands_back_what_nobody_has_called(
    start: Start, provider: Provider
) -> None:
    till, event = start_till(start, provider, policy=Policy.AT_MOST_ONCE), note()
    provider.plan = [NotDone()] * 3
    assert not till.deliver(event)
    with inject(till.aws.runtime.dynamodb, WRITE, None, answer_lost()):
        assert not till.deliver(event)
    assert len(provider.calls) == 3
    assert till.deliver(event)
    assert_done_once(till)


def test_a_permanent_error_after_an_unknown_attempt_is_not_taken_for_nothing_done(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider, policy=Policy.PROVIDER_KEY)
    provider.plan = [after(TimeoutError()), PermanentError("no such address")]
    assert till.deliver(note())
    [letter] = till.aws.dead_letters()
    assert facts(letter)["reason"] == "effect-unknown"
    assert "no such address" in facts(letter)["error"]
    assert till.standing == "unknown"


def sees_its_own_commit(provider: Provider, box: dict[str, Any]) -> Handler:
    def pay(event: Note, tx: Transaction) -> None:
        if tx.get(COUNTERS, {"name": f"pay {event.name}"}):
            raise PermanentError("begun already")
        tx.put(COUNTERS, {"name": f"pay {event.name}", "amount": 0})
        tx.perform(box["effect"], Charge(event.name, event.amount))

    return pay


def test_a_handler_that_fails_on_its_own_intent_does_not_keep_the_effect_from_going_on(
    start: Start, provider: Provider
) -> None:
    box: dict[str, Any] = {}
    handler = sees_its_own_commit(provider, box)
    till, event = start_till(start, provider, policy=Policy.PROVIDER_KEY, handler=handler), note()
    box["effect"] = till.consumer.effects["charge"]
    provider.plan = [after(Killed())]
    assert till.killed(event)
    till.later()
    assert till.deliver(event, receive_count=2)
    assert_done_once(till)
    assert len(provider.charges) == 1


def once_only(event: Note, tx: Transaction) -> None:
    if tx.get(COUNTERS, {"name": event.name}):
        raise PermanentError("it is there already")
    tx.put(COUNTERS, {"name": event.name, "amount": event.amount})


def test_a_duplicate_on_which_the_handler_fails_is_a_duplicate(start: Start) -> None:
    consumer = plain_consumer_of(once_only)
    aws, event = start(consumer), note(event_id="e")
    assert aws.deliver(event, event) == {"batchItemFailures": []}
    assert aws.deliver(event) == {"batchItemFailures": []}
    assert reasons(aws) == []


def test_a_new_event_on_which_the_handler_fails_is_dead_lettered_as_before(start: Start) -> None:
    aws = start(plain_consumer_of(once_only))
    aws.deliver(note(event_id="e"), note(event_id="another"))
    assert reasons(aws) == ["permanent"]


def test_where_the_record_cannot_be_read_a_failing_handler_is_no_verdict(start: Start) -> None:
    consumer = plain_consumer_of(once_only)
    aws = start(consumer)
    aws.put("counters", {"name": "a", "amount": 1})
    client = aws.runtime.dynamodb
    with inject(client, "BatchGetItem", refused("InternalServerError", status=500)) as left:
        assert invoke(aws, consumer, record(json.dumps(note()), "m")) == ["m"]
    assert left == []
    assert reasons(aws) == []
