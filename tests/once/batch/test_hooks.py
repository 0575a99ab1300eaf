"""Hooks: around each step of a message, in its context, without a say in what commits."""

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from io import StringIO
from threading import Barrier
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from msgspec.json import decode

from once import PermanentError, Step
from once.batch.hooks import Kind
from once.effects.declaration import Call, Policy
from once.errors import EffectUnknown, KeyConflict, KeySpent, NotDone, RegistrationError, Unanswered
from once.events.identity import key_hash
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.function import batch_of
from tests.once.batch.test_concurrent_effects import PATIENCE, Shop
from tests.once.effects.provider import (
    LAST_RECEIVE,
    Charge,
    Declined,
    Paid,
    Provider,
    Till,
    after,
    start_till,
)
from tests.once.support import COUNTERS, Note, SoldOut, amounts, consumer_of, count, note, reasons


class Failing:
    """A hook that raises an error at one kind of step, before or after it."""

    def __init__(self, kind: Kind, error: BaseException, *, after: bool = False) -> None:
        self.at, self.error = (kind, after), error
        self.times = 1

    def around(self, step: Step) -> Iterator[None]:
        self._fail(step.kind, after=False)
        yield
        self._fail(step.kind, after=True)

    def _fail(self, kind: str, *, after: bool) -> None:
        if self.at == (kind, after) and self.times:
            self.times -= 1
            raise self.error


def test_each_step_runs_within_all_hooks_in_their_order(till: Till) -> None:
    seen: list[tuple[str, str]] = []
    steps: list[Step] = []

    @till.consumer.around
    def outer(step: Step) -> Iterator[None]:
        seen.append(("outer", step.kind))
        yield
        seen.append(("end of outer", step.kind))

    @till.consumer.around
    def inner(step: Step) -> Iterator[None]:
        steps.append(step)
        seen.append(("inner", step.kind))
        try:
            yield
        except Declined:
            seen.append(("declined", step.kind))
            raise

    till.deliver(note(), receive_count=2)
    kinds = ("handler", "effect", "completion")
    assert seen == [(name, kind) for kind in kinds for name in ("outer", "inner", "end of outer")]
    assert {(s.event_type, s.source, s.message_id, s.receive_count) for s in steps} == {
        ("noted", "/test", "message", 2)
    }
    assert {s.key_hash for s in steps} == {key_hash(till.record["pk"])}
    assert 0 < steps[0].deadline.seconds < 30

    seen.clear()
    till.provider.plan = [Declined("no money")]
    till.deliver(note("b"))
    assert [kind for name, kind in seen if name == "inner"] == ["handler", "effect", "rejection"]
    assert ("declined", "effect") in seen


@pytest.mark.parametrize(
    ("error", "after", "reason", "counted"),
    [
        (SoldOut(), True, [], {"refused": 1}),
        (PermanentError("no tenant"), False, ["permanent"], {}),
        (KeyError("tenant"), True, ["retries-exhausted"], {}),
    ],
    ids=["refusal", "permanent", "other"],
)
def test_an_error_of_a_hook_counts_as_raised_by_the_handler(
    start: Start, error: Exception, *, after: bool, reason: list[str], counted: dict[str, int]
) -> None:
    consumer = consumer_of()
    consumer.around(Failing("handler", error, after=after).around)

    @consumer.rejects(SoldOut)
    def refuse(event: Note, refusal: SoldOut, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "refused", "amount": 1})

    aws = start(consumer)
    aws.deliver(note(), receive_count=5, fails=bool(reason))
    assert reasons(aws) == reason
    assert amounts(aws) == counted


def test_a_hook_cannot_let_a_failed_handler_commit(start: Start) -> None:
    def fail_halfway(event: Note, tx: Transaction) -> None:
        count(event, tx)
        raise ValueError("halfway")

    consumer = consumer_of(fail_halfway)

    @consumer.around
    def forgive(step: Step) -> Iterator[None]:
        with suppress(ValueError):
            yield

    aws = start(consumer)
    with pytest.raises(ValueError, match="halfway"):
        aws.deliver(note())
    assert amounts(aws) == {}


@pytest.mark.parametrize("policy", [Policy.AT_MOST_ONCE, Policy.PROVIDER_KEY])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("tenant"), "'charge' could not be started: KeyError"),
        (NotDone("paused"), "paused"),
    ],
)
def test_an_error_of_a_hook_before_an_effect_means_that_nothing_was_done(
    start: Start, provider: Provider, policy: Policy, error: Exception, text: str
) -> None:
    till = start_till(start, provider, policy=policy)
    failing = Failing("effect", error)
    failing.times = 3 * 2
    till.consumer.around(failing.around)
    event = note()
    assert not till.deliver(event)
    assert till.deliver(event, receive_count=LAST_RECEIVE)
    [(_, found)] = till.dead_letters()
    assert found.startswith(f"NotDone: {text}")
    assert (till.standing, provider.calls) == ("not-done", [])
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


@pytest.mark.parametrize("error", [KeyError("flush"), Declined("late"), PermanentError("x")])
def test_an_outcome_is_kept_and_committed_if_a_hook_fails_after_the_call(
    start: Start, provider: Provider, error: Exception
) -> None:
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    till.consumer.around(Failing("effect", error, after=True).around)
    event = note()
    assert not till.deliver(event)
    assert till.standing == "settled"
    assert till.deliver(event)
    till.assert_paid_once(calls=1)


SAYINGS = [
    *(NotDone("x"), KeyConflict("x"), KeySpent("x"), EffectUnknown("x"), Unanswered("x")),
    *(Declined("x"), PermanentError("x"), KeyError("x"), SystemExit("x"), None),
]
"""Errors of a hook, each of which says something else of an effect; None suppresses its error."""


def replace_errors(till: Till, by: BaseException | None) -> None:
    """Register a hook that raises this in place of any error of an effect or its look-up."""

    @till.consumer.around
    def replace(step: Step) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if step.kind != "effect":
                raise
            if by is not None:
                raise by from error


@pytest.mark.parametrize("by", SAYINGS, ids=repr)
@pytest.mark.parametrize("own", [TimeoutError(), SystemExit(3), CancelledError()], ids=repr)
def test_an_effect_without_an_answer_is_unknown_whatever_a_hook_raises(
    start: Start, provider: Provider, own: BaseException, by: BaseException | None
) -> None:
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    replace_errors(till, by)
    provider.plan = [after(own)]
    assert till.deliver(note())
    text = (
        f"EffectUnknown: the effect 'charge' brought no outcome: {type(own).__name__}; "
        "it is done at most once: find out outside whether it was"
    )
    assert till.dead_letters() == [("effect-unknown", text)]
    assert (till.standing, len(provider.calls), amounts(till.aws)) == ("unknown", 1, {})


@pytest.mark.parametrize("by", SAYINGS, ids=repr)
@pytest.mark.parametrize(
    ("own", "reason", "standing"),
    [
        (NotDone("own"), "retries-exhausted", "not-done"),
        (PermanentError("own"), "permanent", "not-done"),
        (KeyConflict("own"), "key-conflict", "not-done"),
        (EffectUnknown("own"), "effect-unknown", "unknown"),
    ],
    ids=repr,
)
def test_an_effect_alone_says_what_happened(
    start: Start, own: Exception, reason: str, standing: str, by: BaseException | None
) -> None:
    till = start_till(start, Provider(plan=[own, own, own]))
    replace_errors(till, by)
    assert till.deliver(note(), receive_count=LAST_RECEIVE)
    assert till.dead_letters() == [(reason, f"{type(own).__name__}: own")]
    assert (till.standing, amounts(till.aws)) == (standing, {})


@pytest.mark.parametrize("by", SAYINGS, ids=repr)
def test_a_look_up_that_fails_says_nothing_whatever_a_hook_raises(
    start: Start, by: BaseException | None
) -> None:
    def look_up(request: Charge, call: Call) -> Paid:
        raise TimeoutError

    till = start_till(start, Provider(plan=[KeySpent()] * 3), look_up=look_up)
    replace_errors(till, by)
    assert not till.deliver(note())
    assert (till.standing, till.provider.keys) == ("unknown", ["1"] * 3)


@pytest.mark.parametrize("by", SAYINGS[:-1], ids=repr)
def test_a_hook_before_the_call_says_nothing_of_an_earlier_call(
    till: Till, by: BaseException
) -> None:
    event = till.leave_pending(charged=True)
    till.later()
    failing = Failing("effect", by)
    till.consumer.around(failing.around)
    failing.times = 3
    till.deliver(event, receive_count=2)
    assert (till.standing, len(till.provider.calls)) == ("unknown", 1)
    failing.times = 0
    till.dead_letters()
    assert till.deliver(event, receive_count=3)
    till.assert_paid_once(calls=2)


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize("answered", [False, True])
def test_a_hook_with_another_number_of_yields_neither_loses_nor_invents_an_outcome(
    start: Start, provider: Provider, times: int, *, answered: bool
) -> None:
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    provider.plan = [] if answered else [after(TimeoutError())]

    @till.consumer.around
    def wrong(step: Step) -> Iterator[None]:
        for _ in range(times if step.kind == "effect" else 1):
            with suppress(TimeoutError):
                yield

    event = note()
    assert till.deliver(event) is (times == 2 and not answered)
    if not times:
        till.deliver(event, receive_count=LAST_RECEIVE)
        [(_, error)] = till.dead_letters()
        assert error == "NotDone: 'charge' could not be started: RuntimeError"
    standing = "not-done" if not times else "settled" if answered else "unknown"
    assert (till.standing, len(provider.calls)) == (standing, min(times, 1))


@pytest.mark.parametrize("charged", [False, True])
def test_a_refusal_of_a_hook_is_an_outcome_unless_an_earlier_attempt_may_have_one(
    till: Till, *, charged: bool
) -> None:
    event = note()
    if charged:
        till.leave_pending(event, charged=True)
        till.later(100)
    till.consumer.around(Failing("effect", Declined("by a flag")).around)
    assert till.deliver(event)
    found = [reason for reason, _ in till.dead_letters()]
    assert found == ["effect-unknown"] * charged
    assert amounts(till.aws) == ({} if charged else {"declined a": 0})


def test_concurrent_effects_run_within_hooks_and_log_lines_of_their_own_messages(
    start: Start,
) -> None:
    shop = Shop(start).warm_up()
    tenant = ContextVar("tenant", default="nobody")
    stream, together, entered = StringIO(), Barrier(3), Barrier(3)
    logger = Logger(service=f"of the team {id(stream)}", stream=stream)  # kept for each name

    @shop.consumer.around
    def set_tenant(step: Step) -> Iterator[None]:
        token = tenant.set(f"tenant of {step.message_id}")
        if step.kind == "effect":
            entered.wait(PATIENCE)
        yield
        tenant.reset(token)

    def log(name: str) -> None:
        together.wait(PATIENCE)
        logger.info("called", extra={"name_of_charge": name, "tenant": tenant.get()})

    shop.during = log
    assert shop.run(*batch_of(*"abc")) == []
    logger.info("after the batch")
    *lines, last = map(decode, stream.getvalue().splitlines())
    assert {
        (line["name_of_charge"], line["message_id"], line["tenant"], line["receive_count"])
        for line in lines
    } == {(name, name, f"tenant of {name}", 1) for name in "abc"}
    assert len({line["key_hash"] for line in lines}) == 3
    assert "message_id" not in last


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda step: None, "is no generator function; give it one `yield`"),
        (lambda: (yield), "is called with a Step; give it this one argument"),
    ],
)
def test_a_function_that_is_no_hook_is_rejected(function: Any, text: str) -> None:
    consumer = consumer_of()
    consumer.around(function)
    with pytest.raises(RegistrationError, match=text):
        _ = consumer.lambda_handler
