"""Refusals and errors of the provider, the completion and the handler of an effect."""

import json
from typing import Any

import pytest

from once.effects.declaration import Call, Policy
from once.errors import ConditionFailed, PermanentError
from once.testing import inject, refused
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.effects.provider import (
    Charge,
    Declined,
    Make,
    Paid,
    Provider,
    after,
    captured,
    start_till,
)
from tests.once.support import (
    COUNTERS,
    Note,
    amounts,
    consumer_of,
    invoke,
    note,
    reasons,
    record,
)


def test_a_refusal_of_the_provider_is_an_outcome(make: Make) -> None:
    till, event = make(Declined("no money")), note()
    assert till.deliver(event)
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"declined a": 0}
    assert (till.record["outcome"], till.record["refusal"]) == ("refused", "Declined")
    assert till.published == ["declined"]


EXISTS: Any = {"condition": "attribute_exists(amount)", "otherwise": Declined("unknown")}


@pytest.mark.parametrize("by", ["condition", "exception"])
def test_a_refusal_of_the_handler_makes_no_call(make: Make, by: str) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        if by == "exception":
            raise Declined
        tx.check(COUNTERS, {"name": "customer"}, **EXISTS)
        tx.perform(till.effect, Charge(event.name, 1))

    till = make(handler=pay)
    assert till.deliver(note())
    assert till.provider.calls == []
    assert "effect" not in till.record
    assert (till.standing, till.record["outcome"]) == ("done", "refused")
    assert till.published == ["declined"]


@pytest.mark.parametrize("by", ["condition", "exception"])
def test_a_refusal_of_the_completion_commits_its_rejection(make: Make, by: str) -> None:
    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        if by == "exception":
            raise Declined
        tx.put(COUNTERS, {"name": event.name, "amount": 1}, **EXISTS)

    till, event = make(completion=complete), note()
    assert till.deliver(event)
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert (till.standing, till.record["outcome"]) == ("done", "refused")
    assert till.published == ["declined"]
    assert amounts(till.aws) == {"declined a": 0}
    assert till.record["provider_key"] in till.provider.charges


@pytest.mark.parametrize("policy", [Policy.PROVIDER_KEY, Policy.AT_MOST_ONCE])
def test_an_effect_that_failed_for_good_is_called_again_by_a_redrive(
    make: Make, policy: Policy
) -> None:
    till, event = make(PermanentError(), policy=policy), note()
    assert till.deliver(event)
    assert reasons(till.aws) == ["permanent"]
    assert till.standing == "not-done"
    assert till.deliver(event)
    till.assert_paid_once(calls=2)


def test_a_permanent_error_after_an_unanswered_call_leaves_the_effect_unknown(make: Make) -> None:
    till = make(after(TimeoutError()), PermanentError("no such card"))
    assert till.deliver(note())
    text = (
        "EffectUnknown: the effect 'charge' may have happened in an earlier attempt, and now the "
        "provider refuses it for good: look it up there: no such card"
    )
    assert till.dead_letters() == [("effect-unknown", text)]
    assert till.standing == "unknown"


def test_a_completion_on_a_stale_read_runs_again_without_another_call(make: Make) -> None:
    seen: list[Any] = []

    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        seen.append(tx.get(COUNTERS, {"name": "b"}))
        if len(seen) == 1:
            till.aws.put("counters", {"name": "b", "amount": 5, "once_commit": "another"})
        captured(event, outcome, tx)

    till = make(completion=complete)
    assert till.deliver(note())
    assert [found and int(found["amount"]) for found in seen] == [None, 5]
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1, "b": 5}


@pytest.mark.parametrize(
    "failure", [ValueError("x"), ConditionFailed(), PermanentError()], ids=repr
)
def test_a_completion_that_fails_causes_no_second_charge(make: Make, failure: Exception) -> None:
    failures = [failure]

    def complete(event: Note, outcome: Paid, tx: Transaction) -> None:
        if failures:
            raise failures.pop()
        captured(event, outcome, tx)

    till, event = make(completion=complete), note()
    quarantined = isinstance(failure, PermanentError)
    assert till.deliver(event) is quarantined
    assert till.standing == "settled"
    assert reasons(till.aws) == ["permanent"] * quarantined
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


def insert(event: Note, tx: Transaction) -> None:
    if tx.get(COUNTERS, {"name": event.name}):
        raise PermanentError("it is there already")
    tx.put(COUNTERS, {"name": event.name, "amount": event.amount})


INSERTING = consumer_of(insert)


@pytest.mark.parametrize("by", ["condition", "exception"])
def test_a_handler_that_fails_on_its_own_writes_does_not_stop_the_effect(
    make: Make, by: str
) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        if by == "exception":
            insert(Note("begun"), tx)
        else:
            tx.put(
                COUNTERS, {"name": "begun", "amount": 1}, condition="attribute_not_exists(amount)"
            )
        tx.perform(till.effect, Charge(event.name, event.amount))

    till = make(handler=pay)
    event = till.leave_pending(charged=True)
    assert amounts(till.aws) == {"begun": 1}  # written beside the intent
    till.later()
    assert till.deliver(event, receive_count=2)
    assert reasons(till.aws) == []
    assert till.standing == "done"
    assert amounts(till.aws) == {"begun": 1, "a": 1}
    assert len(till.provider.charges) == 1


def test_a_handler_that_fails_on_a_duplicate_does_not_quarantine_it(start: Start) -> None:
    aws, event = start(INSERTING), note(event_id="e")
    assert aws.deliver(event, event) == {"batchItemFailures": []}
    assert aws.deliver(event) == {"batchItemFailures": []}
    assert reasons(aws) == []
    aws.deliver(event, note(event_id="another"), fails=True)
    assert reasons(aws) == ["permanent"]


def test_a_failing_handler_is_retried_if_the_record_cannot_be_read(start: Start) -> None:
    aws = start(INSERTING)
    aws.put("counters", {"name": "a", "amount": 1})
    fault = refused("InternalServerError", status=500)
    with inject(aws.runtime.dynamodb, "BatchGetItem", fault) as left:
        assert invoke(aws, INSERTING, record(json.dumps(note()), "m")) == ["m"]
    assert left == []
    assert reasons(aws) == []


class Sevens:
    """Provider whose function returns another value than `charge` declares."""

    def __init__(self, value: Any, provider: Provider) -> None:
        self.value, self.provider = value, provider

    def charge(self, request: Charge, call: Call) -> Paid:
        self.provider.charge(request, call)
        returned: Paid = self.value
        return returned


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (7, "of the type int, which does not fit the declared"),
        (None, "of the type NoneType"),
        (Paid(7), "got `int` - at `$.charge_id`"),  # type: ignore[arg-type]
    ],
    ids=["another type", "nothing", "another type of a field"],
)
@pytest.mark.parametrize("policy", Policy)
def test_an_outcome_of_another_type_is_quarantined_without_another_call(
    start: Start, provider: Provider, policy: Policy, value: Any, shown: str
) -> None:
    till = start_till(start, provider, policy=policy)
    effect, event = till.effect, note()
    right, effect.function = effect.function, Sevens(value, provider).charge
    assert till.deliver(event)
    [(reason, error)] = till.dead_letters()
    assert shown in error
    assert "correct the function or its annotation, deploy, and redrive" in error
    assert (till.standing, till.published, len(provider.charges)) == ("unknown", [], 1)
    # The function was corrected, and the letter redriven: as the policy allows.
    effect.function = right
    assert till.deliver(event)
    if policy is Policy.AT_MOST_ONCE:
        assert (reason, len(provider.calls)) == ("effect-unknown", 1)
        assert "the outcome is " in error
        assert [each for each, _ in till.dead_letters()] == ["effect-unknown"]
    else:
        assert (reason, len(provider.calls)) == ("wrong-outcome", 2)
        assert (len(provider.charges), till.standing, till.published) == (1, "done", ["paid"])
