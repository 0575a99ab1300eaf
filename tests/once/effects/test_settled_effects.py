"""Settled effects: an outcome that is known and not committed is kept, and committed later."""

from dataclasses import dataclass
from typing import Any

import pytest

from once.effects.declaration import Call, Effect, Policy
from once.effects.executor import NotKept, kept_text, refused_text, restored
from once.errors import EffectUnknown, Refusal, UnhandledRefusal
from once.intake.registration import effect_faults
from once.names import Record
from once.testing import never_sent
from tests.once.effects.provider import (
    Charge,
    Declined,
    Make,
    Paid,
    Provider,
    Till,
    captured,
    consumer_of,
)
from tests.once.support import SoldOut, amounts, note

REFUSALS = (Declined,)
UNANSWERED = [never_sent()] * 11
"""As many as there are attempts at a commit."""


class Declining(Declined):
    """A refusal that the rejection of its base class answers."""


class Formatting(Refusal):
    """A refusal that changes its arguments."""

    def __init__(self, code: str) -> None:
        super().__init__(f"declined: {code}")


@dataclass
class Receipt:
    lines: list[str]


def effect_of(kind: Any) -> Effect:
    def call(request: Charge, call: Call) -> Any:
        raise NotImplementedError

    call.__annotations__["return"] = kind
    return Effect("charge", Charge, Policy.AT_MOST_ONCE, 0, call)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (Paid, Paid("of a")),
        (Receipt, Receipt(["a"])),
        (str, "ref-1"),
        (type(None), None),
        (dict[str, int], {"a": 1}),
        (Paid | None, Paid("é")),
    ],
    ids=str,
)
def test_an_outcome_is_restored_as_it_was(kind: Any, outcome: Any) -> None:
    effect = effect_of(kind)
    assert restored(effect, kept_text(effect, outcome), ()) == outcome


@pytest.mark.parametrize("refusal", [Declined(), Declined("no"), Declining("no", 1)], ids=repr)
def test_a_refusal_is_restored_as_it_was(refusal: Refusal) -> None:
    again = restored(effect_of(str), kept_text(effect_of(str), refusal), REFUSALS)
    assert (type(again), again.args) == (type(refusal), refusal.args)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [(str, object()), (float, float("nan")), (str, Paid("a")), (str, Formatting("x"))],
    ids=["no JSON", "not a number", "another type", "refusal"],
)
def test_an_outcome_that_would_be_restored_as_another_is_not_kept(kind: Any, outcome: Any) -> None:
    with pytest.raises(NotKept):
        kept_text(effect_of(kind), outcome)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"returned":{"charge":"ch_1"}}', EffectUnknown),
        ("no JSON", EffectUnknown),
        (refused_text("Declined", []), None),
        (refused_text("SoldOut", []), UnhandledRefusal),
    ],
)
def test_a_kept_outcome_of_another_shape_is_an_error(
    text: str, error: type[Exception] | None
) -> None:
    if error is None:
        assert isinstance(restored(effect_of(Paid), text, REFUSALS), Declined)
        return
    with pytest.raises(error, match="once effects settle"):
        restored(effect_of(Paid), text, REFUSALS)


def settle(till: Till, text: str) -> None:
    """Store an outcome as an operator does."""
    values = {"standing": "settled", Record.EFFECT_OUTCOME: text, "owner": "by hand"}
    till.aws.put("dedup", till.record | values)


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("refused", [False, True])
def test_an_outcome_whose_commit_fails_is_kept_and_committed_without_another_call(
    make: Make, policy: Policy, *, refused: bool
) -> None:
    till, event = make(*[Declined("no money")] * refused, policy=policy), note()
    with till.faults(None, *UNANSWERED):
        assert not till.deliver(event)
    assert till.standing == "settled"
    till.later(30 * 24 * 60 * 60)
    assert till.deliver(event)
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == ({"declined a": 0} if refused else {"a": 1})
    assert till.published == ["declined" if refused else "paid"]


@pytest.mark.parametrize("policy", Policy)
def test_an_outcome_that_cannot_be_kept_is_in_the_letter_of_what_is_done_at_most_once(
    make: Make, policy: Policy
) -> None:
    till, event = make(policy=policy), note()
    once = policy is Policy.AT_MOST_ONCE
    with till.faults(None, *UNANSWERED, *[never_sent()] * 3):
        assert till.deliver(event) is once
    assert till.standing == "in-flight"
    letters = till.dead_letters()
    assert [reason for reason, _ in letters] == ["effect-unknown"] * once
    assert all('the outcome is {"returned":{"charge_id":"of a"}}' in text for _, text in letters)


def test_a_settled_outcome_is_completed_without_a_call_after_any_policy_and_lease(
    make: Make,
) -> None:
    till = make(policy=Policy.AT_MOST_ONCE)
    event = till.leave_pending()
    settle(till, '{"returned":{"charge_id":"ch_9"}}')
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    till.assert_completed()
    assert till.record["outcome"] == "accepted"


def test_an_outcome_of_the_wrong_shape_stays_settled_until_it_is_settled_again(
    make: Make,
) -> None:
    till = make(policy=Policy.AT_LEAST_ONCE)
    event = till.leave_pending()
    settle(till, '{"returned":{"charge":"ch_9"}}')
    assert till.deliver(event)
    [(reason, text)] = till.dead_letters()
    assert reason == "effect-unknown"
    assert "does not fit the effect 'charge': settle it again" in text
    assert till.standing == "settled"  # or an effect of this policy would be called again
    settle(till, '{"returned":{"charge_id":"ch_9"}}')
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    till.assert_completed()


def test_a_refusal_without_an_answer_is_kept_until_one_is_deployed(make: Make) -> None:
    till, event = make(SoldOut("x")), note()
    assert till.deliver(event)
    assert till.standing == "settled"
    assert till.deliver(event)
    assert [reason for reason, _ in till.dead_letters()] == ["unhandled-refusal"] * 2
    till.consumer.rejects(SoldOut)(lambda event, refusal, tx: None)
    assert till.deliver(event)
    assert (till.record["outcome"], till.record["refusal"]) == ("refused", "SoldOut")
    assert len(till.provider.calls) == 1


def test_two_deliveries_of_a_settled_effect_complete_it_once(make: Make) -> None:
    till = make(completion=lambda event, outcome, tx: complete(event, outcome, tx))
    event, deliveries = till.leave_pending(), list[bool]()
    settle(till, '{"returned":{"charge_id":"ch_9"}}')

    def complete(event_data: Any, outcome: Paid, tx: Any) -> None:
        if not deliveries:
            deliveries.append(True)
            deliveries.append(till.deliver(event))
        captured(event_data, outcome, tx)

    assert till.deliver(event)
    assert deliveries == [True, True]
    assert len(till.provider.calls) == 1
    till.assert_completed()


def test_an_effect_that_does_not_say_what_it_returns_is_refused() -> None:
    effect = consumer_of(Provider()).effects["charge"]
    assert list(effect_faults(effect)) == []
    effect.function = lambda request, call: None
    [fault] = effect_faults(effect)
    assert "does not say what it returns; annotate it with a type that JSON can hold" in fault
