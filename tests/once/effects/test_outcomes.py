"""Outcomes of an effect: refusals, errors, and outcomes that are kept and committed later."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from once.effects.declaration import Call, Effect, Policy
from once.effects.executor import (
    NotKept,
    described_outcome,
    kept_text,
    refused_text,
    restored,
    returned_text,
)
from once.errors import (
    ConditionFailed,
    EffectUnknown,
    PermanentError,
    Refusal,
    Throttled,
    UnhandledRefusal,
    WrongOutcome,
)
from once.intake.registration import effect_faults
from once.names import OUTCOME_BYTES, Record
from once.testing import never_sent
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.effects.provider import (
    Charge,
    Declined,
    Make,
    Paid,
    Provider,
    Till,
    after,
    captured,
    start_till,
)
from tests.once.effects.provider import consumer_of as paying
from tests.once.support import COUNTERS, Note, SoldOut, amounts, consumer_of, facts, note, reasons


def test_a_refusal_of_the_provider_is_an_outcome(make: Make) -> None:
    till = make(Declined("no money"))
    assert till.deliver(note())
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"declined a": 0}
    assert (till.record["outcome"], till.record["refusal"]) == ("refused", "Declined")
    assert till.published == ["declined"]


def test_a_refusal_after_a_call_without_an_answer_is_an_outcome_too(make: Make) -> None:
    # It may be that of the first call, as the provider saved it under the key.
    till = make(TimeoutError(), Declined("no money"), policy=Policy.AT_LEAST_ONCE)
    assert till.deliver(note())
    assert len(till.provider.calls) == 2
    assert (till.record["outcome"], till.record["refusal"]) == ("refused", "Declined")


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
            till.aws.given("counters", {"name": "b", "amount": 5, "once_commit": "another"})
        captured(event, outcome, tx)

    till = make(completion=complete)
    assert till.deliver(note())
    assert [found and int(found["amount"]) for found in seen] == [None, 5]
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1, "b": 5}


@pytest.mark.parametrize(
    "failure", [ValueError("x"), ConditionFailed(), PermanentError(), Throttled()], ids=repr
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


class Sevens:
    """Provider whose function returns another value than `charge` declares."""

    def __init__(self, value: Any, provider: Provider) -> None:
        self.value, self.provider = value, provider

    def charge(self, request: Charge, call: Call) -> Paid:
        self.provider.charge(request, call)
        if isinstance(self.value, Refusal):
            raise self.value
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
@pytest.mark.parametrize("policy", [Policy.PROVIDER_KEY, Policy.AT_MOST_ONCE])
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
    # The function was corrected, and the message redriven: as the policy allows.
    effect.function = right
    assert till.deliver(event)
    if policy is Policy.AT_MOST_ONCE:
        assert (reason, len(provider.calls)) == ("effect-unknown", 1)
        assert "It is in the attribute once-outcome" in error
        assert [each for each, _ in till.dead_letters()] == ["effect-unknown"]
    else:
        assert (reason, len(provider.calls)) == ("wrong-outcome", 2)
        assert (len(provider.charges), till.standing, till.published) == (1, "done", ["paid"])


# Settled effects: an outcome that is known and not committed is kept, and committed later.


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


def effect_of(kind: Any) -> Effect[Any, Any]:
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
    ("text", "described"),
    [
        (returned_text(b'{"charge_id":"a"}'), ("done", '{"charge_id":"a"}')),
        (refused_text("Declined", ["no", 7]), ("refused", "Declined(no, 7)")),
    ],
)
def test_a_kept_outcome_is_described(text: str, described: tuple[str, str]) -> None:
    assert described_outcome(text) == described


@pytest.mark.parametrize(
    ("kind", "outcome", "text"),
    [
        (str, object(), "object"),
        (float, float("nan"), "null"),
        (str, Paid("a"), "`object`"),
        (str, Formatting("x"), "read back from JSON, it is not equal"),
        (Literal["a"], "SECRET", ": none of the allowed values$"),
    ],
    ids=["no JSON", "not a number", "another type", "refusal", "not allowed"],
)
def test_an_outcome_that_would_be_restored_as_another_is_not_kept(
    kind: Any, outcome: Any, text: str
) -> None:
    with pytest.raises(NotKept, match=text):
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
    till.aws.given("dedup", till.record | values)


@pytest.mark.parametrize(
    ("policy", "refused"), [*((policy, False) for policy in Policy), (Policy.AT_MOST_ONCE, True)]
)
def test_an_outcome_whose_commit_fails_is_kept_and_committed_without_another_call(
    make: Make, policy: Policy, *, refused: bool
) -> None:
    till, event = make(*[Declined("no money")] * refused, policy=policy), note()
    with till.faults(None, *UNANSWERED):
        assert not till.deliver(event)
    assert len(till.aws.slept) == len(UNANSWERED) - 1
    assert till.standing == "settled"
    till.later(30 * 24 * 60 * 60)
    assert till.deliver(event)
    assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == ({"declined a": 0} if refused else {"a": 1})
    assert till.published == ["declined" if refused else "paid"]


FORM = len('{"returned":{"charge_id":""}}')
LONGEST = "é\ufffe\uffff\x00" + "x" * (
    OUTCOME_BYTES - FORM - 20
)  # as many bytes as a letter may hold


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("outcome", [Paid("of a"), Paid(LONGEST), Declined(LONGEST[:-20])])
def test_an_outcome_that_cannot_be_kept_is_in_the_dead_letter_of_what_is_done_at_most_once(
    start: Start, provider: Provider, policy: Policy, outcome: Any
) -> None:
    till = start_till(start, provider, policy=policy)
    till.effect.function = Sevens(outcome, provider).charge
    once = policy is Policy.AT_MOST_ONCE
    with till.faults(None, *UNANSWERED, *[never_sent()] * 3):
        assert till.deliver(note()) is once
    assert till.standing == "in-flight"
    dead_letters = [*map(facts, till.aws.dead_letters())]
    assert [each["reason"] for each in dead_letters] == ["effect-unknown"] * once
    for each in dead_letters:
        assert "neither committed (Contention) nor kept in its record" in each["error"]
        found = restored(till.effect, each["outcome"], REFUSALS)
        assert (type(found), str(found)) == (type(outcome), str(outcome))


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"id": 7}, '{"returned":{"id":7}}'),
        (object, "<class 'object'>"),
        (Unprintable(), "a value of the type Unprintable"),
        (Formatting("x"), '{"refused":"Formatting","arguments":["declined: x"]}'),
        ("é" * OUTCOME_BYTES, '{"returned":"' + "é" * (OUTCOME_BYTES // 2 - 7)),
    ],
    ids=["another type", "no JSON", "no text", "a refusal that is not restored", "too large"],
)
def test_an_outcome_of_the_wrong_form_is_in_the_dead_letter_as_far_as_it_goes(
    start: Start, provider: Provider, value: Any, shown: str
) -> None:
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    till.effect.function = Sevens(value, provider).charge
    assert till.deliver(note())
    [found] = map(facts, till.aws.dead_letters())
    assert found["outcome"] == shown


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("outcome", [Paid(LONGEST + "x"), Declined(LONGEST)], ids=["paid", "no"])
def test_an_outcome_that_a_dead_letter_cannot_hold_is_wrong_at_the_first_test(
    start: Start, provider: Provider, policy: Policy, outcome: Any
) -> None:
    till, event = start_till(start, provider, policy=policy), note()
    till.effect.function = Sevens(outcome, provider).charge
    if policy is Policy.AT_MOST_ONCE:
        with pytest.raises(WrongOutcome, match=r"may have 32,768, so that a dead letter can hold"):
            till.aws.deliver(event)
        assert reasons(till.aws) == ["wrong-outcome"]
        assert till.standing == "settled"  # nothing of it is lost: a redrive commits it
    till.aws.deliver(event)
    assert till.standing == "done"
    assert len(provider.calls) == 1


@pytest.mark.parametrize("policy", [Policy.AT_LEAST_ONCE, Policy.AT_MOST_ONCE])
def test_an_outcome_of_the_wrong_shape_stays_settled_until_it_is_settled_again(
    make: Make, policy: Policy
) -> None:
    till = make(policy=policy)
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
    assert till.record["outcome"] == "accepted"


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


def test_an_effect_that_does_not_say_what_it_returns_is_refused() -> None:
    effect = paying(Provider()).effects["charge"]
    assert list(effect_faults(effect)) == []
    effect.function = lambda request, call: None
    [fault] = effect_faults(effect)
    assert "does not say what it returns; annotate it with a type that JSON can hold" in fault
