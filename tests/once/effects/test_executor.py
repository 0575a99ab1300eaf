"""The executor: time for a call, saved errors, and effects that cannot start or go on."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from once.consumer import Consumer
from once.effects.declaration import Call, Effect, Policy
from once.errors import KeySpent, NotDone, PermanentError
from once.names import Limits
from once.settings import TIME_MARGIN_MS
from once.testing import Fault, cancelled, never_sent, refused
from once.transaction import Transaction
from tests.once.effects.provider import (
    LAST_RECEIVE,
    TAKEOVER,
    TIMEOUT,
    Charge,
    Declined,
    Make,
    Paid,
    Provider,
    Step,
    Till,
    consumer_of,
    fail,
)
from tests.once.support import COUNTERS, Killed, Note, note

JUST_ENOUGH = TIME_MARGIN_MS + TIMEOUT * 1000
CONFLICT = cancelled("TransactionConflict")


def spend_pauses(till: Till) -> None:
    """Let each pause before a retry take a millisecond of the invocation."""

    def sleep(seconds: float) -> None:
        till.context.remaining_ms -= 1

    till.aws.runtime = replace(till.aws.runtime, sleep=sleep)


def test_a_call_that_does_not_fit_is_not_begun(till: Till) -> None:
    event = note()
    with till.delays() as delays:
        assert not till.deliver(event, remaining_ms=JUST_ENOUGH - 1)
    assert delays == [0]
    assert till.deliver(event, receive_count=LAST_RECEIVE, remaining_ms=JUST_ENOUGH - 1)
    text = "OutOfTime: a call to the outside world would not fit into this invocation"
    assert [error for _, error in till.dead_letters()] == [text]
    assert till.provider.calls == []
    assert till.aws.items("dedup") == []


@pytest.mark.parametrize(
    ("remaining_ms", "faults"),
    [
        pytest.param(JUST_ENOUGH - 1, [], id="from the start"),
        pytest.param(JUST_ENOUGH, [CONFLICT], id="after contention at the intent"),
    ],
)
def test_an_effect_is_not_taken_over_if_its_call_does_not_fit(
    till: Till, remaining_ms: int, faults: list[Fault]
) -> None:
    event = till.leave_pending()
    pending = till.record
    till.later()
    spend_pauses(till)
    with till.faults(*faults):
        assert not till.deliver(event, remaining_ms=remaining_ms)
    assert till.record == pending


@pytest.mark.parametrize("policy", Policy)
def test_contention_at_the_intent_leaves_the_effect_not_done(make: Make, policy: Policy) -> None:
    till, event = make(policy=policy), note()
    spend_pauses(till)
    with till.faults(CONFLICT):
        assert not till.deliver(event, remaining_ms=JUST_ENOUGH)
    assert till.provider.calls == []
    assert till.standing == "not-done"
    till.later(365 * 24 * 60 * 60)
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


@pytest.mark.parametrize("error", [NotDone(), TimeoutError()], ids=repr)
@pytest.mark.parametrize("fits", [False, True])
def test_a_second_call_is_made_at_once_if_it_fits(
    till: Till, error: Exception, *, fits: bool
) -> None:
    def fail() -> None:
        till.context.remaining_ms = JUST_ENOUGH - 1 + fits
        raise error

    till.provider.plan = [fail]
    assert till.deliver(note(), remaining_ms=60_000) is fits
    assert till.provider.timeouts == [TIMEOUT] * (1 + fits)


@pytest.mark.parametrize(
    ("spent_ms", "receive_count", "timeouts"),
    [(1500, 1, [0.5]), (TIMEOUT * 1000, 1, []), (TIMEOUT * 1000, LAST_RECEIVE, [])],
)
def test_a_look_up_gets_the_time_that_is_left_or_waits_for_the_next_delivery(
    make: Make, spent_ms: int, receive_count: int, timeouts: list[float]
) -> None:
    def look_up(request: Charge, call: Call) -> Paid:
        found.append(call.timeout_seconds)
        return Paid("found")

    def spend() -> Any:
        till.context.remaining_ms -= spent_ms
        raise KeySpent

    found: list[float] = []
    till, event = make(spend, KeySpent(), look_up=look_up), note()
    last = receive_count == LAST_RECEIVE
    acknowledged = till.deliver(event, receive_count=receive_count, remaining_ms=JUST_ENOUGH)
    assert (found, acknowledged) == (timeouts, bool(timeouts) or last)
    text = "Unanswered: no time was left to look the effect 'charge' up"
    assert [error for _, error in till.dead_letters()] == [text] * last
    if not timeouts:
        assert till.standing == "unknown"
        assert till.deliver(event)
        assert found == [TIMEOUT]
    till.assert_completed()


# Provider answers that are not an outcome: still running, and a saved error.


class StillRunning(Exception):
    """An earlier call with this key has not ended: Stripe's 409."""


def finds(*found: Any) -> Any:
    """A look-up with these answers, one after the other; an error is raised."""
    answers = iter(found)

    def look_up(request: Charge, call: Call) -> Paid | None:
        answer = Killed() if Killed.dead else next(answers)
        if isinstance(answer, BaseException):
            fail(answer)
        return answer  # type: ignore[no-any-return]

    return look_up


def test_x2_still_running_is_retried_by_redelivery_and_not_quarantined(make: Make) -> None:
    till, event = make(*[StillRunning()] * 6), note()
    assert not till.deliver(event)
    assert not till.deliver(event, receive_count=2)
    assert till.standing == "unknown"
    assert till.deliver(event, receive_count=3)
    till.assert_paid_once(calls=7)
    assert till.record["outcome"] == "accepted"


@pytest.mark.parametrize("declined", [False, True])
def test_x3_a_charge_found_behind_a_saved_error_completes_without_another_call(
    make: Make, *, declined: bool
) -> None:
    asked: list[tuple[Any, str]] = []

    def look_up(request: Charge, call: Call) -> Paid:
        asked.append((request, call.key))
        if declined:
            raise Declined("no money")
        return Paid("found")

    till = make(KeySpent(), look_up=look_up)
    assert till.deliver(note("a", 5))
    assert asked == [(Charge("a", 5), till.provider.calls[0][0])]
    assert len(till.provider.calls) == 1
    if declined:
        assert (till.record["outcome"], till.published) == ("refused", ["declined"])
    else:
        till.assert_completed(amount=5)


def test_x3_a_saved_error_with_nothing_done_is_followed_by_a_new_key(make: Make) -> None:
    till, written = make(look_up=finds(None, None)), list[str]()
    plan: list[Step] = [KeySpent(), KeySpent()]
    till.provider.plan = [*plan, lambda: written.append(till.record["provider_key"])]
    assert till.deliver(note())
    assert till.provider.keys == ["1", "2", "3"]
    assert written == [till.provider.calls[2][0]]  # the key is in the table before its call
    assert len({request for _, request in till.provider.calls}) == 1
    assert len(till.provider.charges) == 1
    assert till.record["provider_key"] in till.provider.charges


@pytest.mark.parametrize(
    ("looked_up", "keys"),
    [
        pytest.param(Killed(), ["1", "1", "2"], id="before the new key is written"),
        pytest.param(None, ["1", "2", "2"], id="after the new key is written"),
    ],
)
def test_x3_a_kill_around_the_renewal_of_a_key_leaves_one_charge(
    make: Make, looked_up: Any, keys: list[str]
) -> None:
    till, event = make(look_up=finds(looked_up, None)), note()
    till.provider.plan = [KeySpent(), KeySpent() if looked_up else Killed()]
    assert till.killed(event)
    till.later()
    assert till.deliver(event)
    assert till.provider.keys == keys
    assert len(till.provider.charges) == 1


def test_x3_a_new_key_is_not_used_before_its_write_is_answered(make: Make) -> None:
    till = make(KeySpent(), KeySpent(), look_up=finds(None, None))
    with till.faults(None, never_sent()):
        assert till.deliver(note())
    assert till.provider.keys == ["1", "1", "2"]


def test_x3_an_effect_is_not_done_until_its_new_key_is_called(make: Make) -> None:
    till = make(KeySpent(), NotDone(), NotDone(), look_up=finds(None))
    assert not till.deliver(note())
    assert till.provider.keys == ["1", "2", "2"]
    assert till.standing == "not-done"


@pytest.mark.parametrize("failure", [TimeoutError(), NotDone(), PermanentError()], ids=repr)
def test_x3_a_look_up_that_fails_is_tried_again(make: Make, failure: Exception) -> None:
    till, event = make(*[KeySpent()] * 4, look_up=finds(*[failure] * 3, Paid("x"))), note()
    assert not till.deliver(event)
    assert till.standing == "unknown"
    assert till.deliver(event)
    assert till.provider.keys == ["1"] * 4
    assert till.provider.charges == {}
    till.assert_completed()


@pytest.mark.parametrize("policy", Policy)
def test_x3_a_saved_error_without_a_look_up_is_quarantined(make: Make, policy: Policy) -> None:
    till = make(KeySpent(), policy=policy)
    assert till.deliver(note())
    text = (
        "EffectUnknown: the effect 'charge' ended in an error that says nothing of its outcome, "
        "and has no look-up: find out outside what became of it"
    )
    assert till.dead_letters() == [("effect-unknown", text)]
    assert (till.standing, len(till.provider.calls)) == ("unknown", 1)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (KeySpent(), "NotDone: the provider's attempt ended in an error, and did nothing"),
        (StillRunning(), "Unanswered: the effect 'charge' brought no outcome: StillRunning"),
    ],
)
def test_an_effect_without_an_outcome_at_the_last_receive_is_quarantined(
    make: Make, step: Exception, text: str
) -> None:
    till = make(*[step] * 3, look_up=finds(None, None, None))
    assert till.deliver(note(), receive_count=LAST_RECEIVE)
    assert [error for _, error in till.dead_letters()] == [text]


# Effects whose message cannot go on: what is known of the effect is reported, and kept.


class Narrow(Struct):
    name: str
    amount: Annotated[int, Meta(ge=100)]


def charge(request: Charge, call: Call) -> Paid:
    raise NotImplementedError


def with_one_argument() -> Any:
    """Return a function that cannot be called as its declaration says."""
    return wraps(charge)(lambda request: Paid(request.name))


def failing_inside(request: Charge, call: Call) -> Paid:
    raise ImportError(name="bank")  # the library cannot see whether a call was made before


@pytest.mark.parametrize("policy", Policy)
def test_an_effect_that_could_not_be_started_was_not_done(make: Make, policy: Policy) -> None:
    till, event = make(policy=policy), note()
    till.effect.function = with_one_argument()
    assert not till.deliver(event)
    assert till.deliver(event, receive_count=LAST_RECEIVE)
    [(reason, error)] = till.dead_letters()
    assert reason == "retries-exhausted"
    assert error.startswith("NotDone: 'charge' could not be started: TypeError")
    assert till.standing == "not-done"
    till.effect.function = till.provider.charge
    till.later(365 * 24 * 60 * 60)
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


@pytest.mark.parametrize(
    "function",
    [failing_inside, wraps(charge)(partial(int, "x"))],
    ids=["its own error", "no Python function"],
)
def test_an_effect_that_may_have_called_is_unknown(
    make: Make, function: Callable[..., Any]
) -> None:
    till = make(policy=Policy.AT_MOST_ONCE)
    till.effect.function = function
    assert till.deliver(note())
    assert [reason for reason, _ in till.dead_letters()] == ["effect-unknown"]
    assert till.standing == "unknown"


def test_an_effect_that_could_not_be_resumed_stays_unknown(make: Make) -> None:
    till = make(policy=Policy.AT_LEAST_ONCE)
    event = till.leave_pending()
    till.later(TAKEOVER)
    till.effect.function = with_one_argument()
    assert not till.deliver(event)
    assert till.standing == "unknown"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": Narrow, "handler": lambda event, tx: None}, "does not fit its model any more"),
        ({"name": "payment"}, "is no longer declared by this consumer: bring it back; its effect"),
    ],
    ids=["model", "name"],
)
def test_an_effect_that_was_not_done_is_not_reported_as_unknown(
    make: Make, options: dict[str, Any], text: str
) -> None:
    till, event = make(*[NotDone()] * 3), note()
    assert not till.deliver(event)
    assert till.standing == "not-done"
    original, till.consumer = till.consumer, consumer_of(till.provider, **options)
    assert till.deliver(event)
    [(reason, error)] = till.dead_letters()
    assert (reason, text in error) == ("permanent", True)
    assert till.standing == "not-done"
    till.consumer = original
    assert till.deliver(event)
    till.assert_paid_once(calls=4)


def too_large(event: Note, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": "large", "text": "x" * Limits.ITEM_BYTES})


def other_request(event: Note, tx: Transaction) -> None:
    tx.perform(consumer_of(None).effects["charge"], Charge("a", 1))  # type: ignore[arg-type]


@pytest.mark.parametrize("handler", [too_large, other_request, None])
def test_a_handler_whose_writes_are_refused_hides_no_pending_effect(
    make: Make, handler: Callable[..., None] | None
) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        if till.provider.calls and handler is not None:
            handler(event, tx)
        tx.perform(till.effect, Charge(event.name, event.amount))

    till = make(handler=pay)
    event = till.leave_pending(charged=True)
    till.later()
    with till.faults(*[refused("ValidationException")] * (handler is None)):
        assert till.deliver(event)
    till.assert_paid_once(calls=2)


def test_a_conflict_with_a_pending_effect_names_it(till: Till) -> None:
    till.leave_pending(note(event_id="e"))
    assert till.deliver(note(event_id="e", amount=9))
    [(reason, error)] = till.dead_letters()
    assert reason == "key-conflict"
    assert f"may have happened under the provider key {till.record['provider_key']}" in error


# Invalid requests of an effect: refused before a call or a write.


A = Charge("a", 1)
EFFECT = consumer_of(Provider()).effects["charge"]
"""An effect of another consumer, under the same name."""


class Other(Struct):
    name: str


INVALID: dict[str, tuple[list[Any], str]] = {
    "two effects": ([A, A], "one effect an event: publish an event, and let it cause the next"),
    "published before": (["paid", A], "publish it in the function that completes the effect"),
    "published after": ([A, "paid"], "publish it in the function that completes the effect"),
    "another model": ([Other("a")], "the effect 'charge' takes a Charge"),
    "another type": (
        [Charge("a", "much")],  # type: ignore[arg-type]
        "the request of 'charge' breaks its model: an object of Charge could not be read again",
    ),
    "another consumer's effect": (
        [EFFECT],
        "'charge' is not declared by this consumer: declare it with @consumer.effect",
    ),
}


def assert_refused(till: Till, text: str) -> None:
    [(reason, error)] = till.dead_letters()
    assert reason == "invalid-write"
    assert text in error


@pytest.mark.parametrize(("steps", "text"), INVALID.values(), ids=INVALID)
def test_an_invalid_request_is_neither_called_nor_written(
    make: Make, steps: list[Any], text: str
) -> None:
    def pay(event: Note, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "half done", "amount": 1})
        for step in steps:
            if isinstance(step, str):
                tx.publish(step, {})
            elif isinstance(step, Effect):
                tx.perform(step, A)
            else:
                tx.perform(till.effect, step)

    till = make(handler=pay)
    assert till.deliver(note())
    assert_refused(till, text)
    assert till.provider.calls == []
    assert till.aws.items("dedup") == till.aws.items("counters") == []


def refuse(event: Note, tx: Transaction) -> None:
    raise Declined


def request_another(event: Note, cause: Any, tx: Transaction) -> None:
    tx.perform(EFFECT, A)


@pytest.mark.parametrize(
    ("plan", "options", "calls"),
    [
        ([], {"completion": request_another}, 1),
        ([Declined()], {"rejection": request_another}, 1),
        ([], {"rejection": request_another, "handler": refuse}, 0),
    ],
    ids=["completion", "rejection of the provider", "rejection of the handler"],
)
def test_only_a_handler_requests_an_effect(
    make: Make, plan: list[Step], options: dict[str, Any], calls: int
) -> None:
    till = make(*plan, **options)
    assert till.deliver(note())
    assert_refused(till, "one effect an event")
    assert len(till.provider.calls) == calls
    assert [item["standing"] for item in till.aws.items("dedup")] == ["settled"] * calls


def narrowed_consumer() -> Consumer:
    def pay(event: Note, tx: Transaction) -> None:
        tx.perform(consumer.effects["charge"], Narrow(event.name, 100))

    options: Any = {"policy": Policy.AT_LEAST_ONCE, "model": Narrow, "handler": pay}
    consumer = consumer_of(Provider(), **options)
    return consumer


@pytest.mark.parametrize(
    ("changed", "standing", "text"),
    [
        pytest.param(
            narrowed_consumer(),
            "unknown",
            "EffectUnknown: the pending request of 'charge' does not fit its model any more: bring "
            "the model back: Expected `int` >= 100 - at `$.amount`; its effect 'charge' may have "
            "happened under the provider key {key}: find out outside whether it did",
            id="model",
        ),
        pytest.param(
            consumer_of(Provider(), name="payment"),
            "in-flight",
            "EffectUnknown: the pending effect 'charge' is no longer declared by this consumer: "
            "bring it back; its effect 'charge' may have happened under the provider key {key}: "
            "find out outside whether it did",
            id="name",
        ),
    ],
)
def test_a_pending_effect_whose_declaration_changed_is_quarantined_until_it_is_restored(
    till: Till, changed: Consumer, standing: str, text: str
) -> None:
    event = till.leave_pending()
    till.later(TAKEOVER)
    original, till.consumer = till.consumer, changed
    assert till.deliver(event)
    [(key, _)] = till.provider.calls
    assert till.dead_letters() == [("effect-unknown", text.format(key=key))]
    assert till.standing == standing
    till.consumer = original
    assert till.deliver(event)
    till.assert_paid_once(calls=2)
