"""Effects of one batch: called side by side, each with its own result, in few requests."""

import asyncio
from collections.abc import Callable  # noqa: TC003
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from multiprocessing import get_context
from threading import Barrier, Event, Lock, get_ident
from time import monotonic
from typing import Any

import pytest

from once.consumer import Consumer
from once.effects.concurrent_calls import ConcurrentCalls, awaited, wait_for_calls
from once.effects.declaration import Call, Policy
from once.errors import NotDone, PermanentError
from once.intake.registration import effect_faults
from once.runtime.deadline import Deadline
from once.settings import TIME_MARGIN_MS
from once.testing import FakeContext, cancelled, inject, refused
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.function import WRITE, batch_of, events, message
from tests.once.effects.provider import NOW, SETTINGS, Charge, Declined, Paid, captured, declined
from tests.once.support import Note, amounts, calls, facts, failures, reasons

NAMES = [f"n{number}" for number in range(10)]
PATIENCE = 20
"""Seconds after which a test fails that waits for a call."""


class Ticking(FakeContext):
    """A Lambda context whose time passes."""

    def __init__(self) -> None:
        super().__init__()
        self._began = monotonic()

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms - int(1000 * (monotonic() - self._began))


class Shop:
    """A warm function with one effect, whose calls do what `during` does with a message's name.

    Attributes:
        most: the most calls that were under way at once.
        called: the names in the order in which their calls began.
        writes: the events of each request that commits, in order.
    """

    def __init__(self, start: Start, *, policy: Policy = Policy.AT_LEAST_ONCE, **settings: Any):
        self.during: Callable[[str], object] = lambda name: None
        self.context = Ticking()
        self.most = 0
        self.called: list[str] = []
        self.writes: list[list[str]] = []
        self._running = 0
        self._lock = Lock()
        self.consumer = Consumer("notes")
        self.consumer.table("counters")
        effect = self.consumer.effect("charge", Charge, policy=policy)(self.charge)

        def pay(event: Note, tx: Transaction) -> None:
            self.before(event)
            tx.perform(effect, Charge(event.name, event.amount))

        self.before: Callable[[Note], object] = lambda event: None
        self.consumer.handles("noted", Note)(pay)
        self.consumer.completes(effect)(captured)
        self.consumer.rejects(Declined)(declined)
        self.aws = start(self.consumer, **SETTINGS | settings)
        self.aws.time = NOW
        self.renew()

    def renew(self) -> None:
        """Start another function, which knows nothing."""
        self._handle = self.consumer.bound_to(self.aws.runtime)

    def charge(self, request: Charge, call: Call) -> Paid:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
            self.called.append(request.name)
        try:
            self.during(request.name)
        finally:
            with self._lock:
                self._running -= 1
        return Paid(f"of {request.name}")

    def run(self, *batch: dict[str, Any]) -> list[str]:
        """Work on a batch; return the ids of the messages that it reports."""
        with calls(self.aws.runtime.dynamodb) as made:
            reported = failures(self._handle({"Records": list(batch)}, self.context))
        self.writes = [events(p["TransactItems"]) for name, p in made if name == WRITE]
        return reported

    def warm_up(self) -> "Shop":
        """Let one effect succeed, and forget it."""
        assert self.run(message("first")) == []
        self.called, self.most = [], 0
        return self


@pytest.fixture
def shop(start: Start) -> Shop:
    """A function that knows that the provider is well."""
    return Shop(start).warm_up()


def test_ten_effects_are_called_side_by_side_and_commit_in_two_requests(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "once.effects.concurrent_calls._LEAST_PATIENCE", PATIENCE
    )  # a busy machine is slow
    together = Barrier(len(NAMES))
    shop.during = lambda name: together.wait(PATIENCE)
    assert shop.run(*batch_of(*NAMES)) == []
    assert [sorted(group) for group in shop.writes] == [NAMES, NAMES]
    assert shop.writes[0] == NAMES
    assert amounts(shop.aws) == dict.fromkeys(["first", *NAMES], 1)


@pytest.mark.parametrize(("most", "expected"), [(2, 2), (10, 7)])
def test_no_more_calls_are_under_way_than_the_line_allows(
    start: Start, most: int, expected: int
) -> None:
    shop = Shop(start, effect_concurrency=most).warm_up()
    together = Barrier(expected)

    def meet(name: str) -> None:
        if name in NAMES[:expected]:
            together.wait(PATIENCE)

    shop.during = meet
    assert shop.run(*batch_of(*NAMES[:7])) == []
    assert shop.most == expected
    assert len(shop.called) == 7


def test_with_one_call_at_a_time_each_commits_before_the_next_begins(start: Start) -> None:
    shop = Shop(start, effect_concurrency=1).warm_up()
    threads: set[int] = set()
    shop.during = lambda name: threads.add(get_ident())
    assert shop.run(*batch_of("a", "b")) == []
    assert shop.writes == [["a"], ["a"], ["b"], ["b"]]
    assert threads == {get_ident()}


@pytest.mark.parametrize("most", [1, 2])
def test_what_a_call_raises_is_kept_for_whoever_takes_its_result(most: int) -> None:
    error = NotDone()

    def fail() -> None:
        raise error

    assert ConcurrentCalls(most).start(copy_context(), fail).exception(PATIENCE) is error


def test_the_time_of_the_invocation_ends_the_wait_for_an_answer() -> None:
    call, context = Future[None](), Ticking()
    context.remaining_ms = 20
    wait_for_calls([call], Deadline(context.get_remaining_time_in_millis, margin_ms=0))
    assert not call.done()


def test_a_slow_effect_delays_no_other(shop: Shop) -> None:
    others, in_time = Event(), list[bool]()

    def wait(name: str) -> None:
        if name == "slow":
            in_time.append(others.wait(PATIENCE))

    shop.during = wait
    client = shop.aws.runtime.dynamodb

    def note(**_: Any) -> None:
        if {"a", "b"} <= amounts(shop.aws).keys():
            others.set()

    client.meta.events.register(f"after-call.dynamodb.{WRITE}", note)
    try:
        assert shop.run(*batch_of("slow", "a", "b")) == []
    finally:
        client.meta.events.unregister(f"after-call.dynamodb.{WRITE}", note)
    assert in_time == [True]
    assert shop.writes == [["slow", "a", "b"], ["a", "b"], ["slow"]]


def test_each_effect_ends_its_own_message_alone(shop: Shop) -> None:
    errors: dict[str, Exception] = {
        "refused": PermanentError("no such card"),
        "declined": Declined("no money"),
        "broken": ValueError("a bug"),
    }

    def fail(name: str) -> None:
        if name in errors:
            raise errors[name]

    shop.during = fail
    assert shop.run(*batch_of("refused", "a", "declined", "broken", "b")) == ["broken"]
    assert amounts(shop.aws) == {"first": 1, "a": 1, "b": 1, "declined declined": 0}
    assert reasons(shop.aws) == ["permanent"]


class GeventTimeout(BaseException):
    """As gevent's: no Exception."""


ENDS = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
ENDS += [GeventTimeout(), BaseExceptionGroup("two", [SystemExit(1), ValueError()])]
"""Errors that are no Exception: most would end the thread, the event loop or the process."""


def assert_ended_alone(shop: Shop, error: BaseException) -> None:
    """Assert that all effects of a batch committed but one, whose dead letter names the error."""
    [dead_letter] = map(facts, shop.aws.dead_letters())
    assert dead_letter["reason"] == "effect-unknown"
    assert f"brought no outcome: {type(error).__name__} at " in dead_letter["error"]
    assert amounts(shop.aws) == dict.fromkeys(["first", *NAMES[1:]], 1)


@pytest.mark.parametrize("most", [1, 10])
@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
def test_an_effect_that_would_end_the_function_ends_its_own_message(
    start: Start, error: BaseException, most: int
) -> None:
    shop = Shop(start, policy=Policy.AT_MOST_ONCE, effect_concurrency=most).warm_up()
    together = Barrier(most)

    def end(name: str) -> None:
        together.wait(PATIENCE)
        if name == "n0":
            raise error

    shop.during = end
    assert shop.run(*batch_of(*NAMES)) == []
    assert_ended_alone(shop, error)


class TestUnknownProvider:
    """While the function does not know whether the provider is well, one call finds out."""

    def test_the_first_call_is_made_alone(self, start: Start) -> None:
        shop = Shop(start)
        rest = Barrier(3)

        def meet(name: str) -> None:
            if name == "a":
                assert shop.called == ["a"]
            else:
                rest.wait(PATIENCE)

        shop.during = meet
        assert shop.run(*batch_of("a", "b", "c", "d")) == []
        assert [sorted(group) for group in shop.writes] == [["a"], ["a"], [*"bcd"], [*"bcd"]]

    def test_an_outcome_that_was_kept_shows_nothing_of_the_provider(self, start: Start) -> None:
        shop = Shop(start)
        with inject(shop.aws.runtime.dynamodb, WRITE, None, refused("AccessDeniedException")):
            assert shop.run(message("kept")) == ["kept"]
        shop.renew()
        assert shop.run(message("kept", receive_count=2)) == []
        assert shop.called == ["kept"]
        assert shop.run(*batch_of("a", "b")) == []
        assert shop.writes == [["a"], ["a"], ["b"], ["b"]]

    def test_of_ten_messages_one_is_attempted_when_the_breaker_is_half_open(
        self, shop: Shop
    ) -> None:
        shop.during = _down
        for number in range(3):
            shop.run(message(f"down-{number}"))
        shop.aws.time = NOW + 10_000
        shop.called = []
        assert len(shop.run(*batch_of(*NAMES))) == len(NAMES)
        assert set(shop.called) == {"n0"}

    def test_failures_side_by_side_count_as_one(self, shop: Shop) -> None:
        shop.during, names = _down, NAMES[:3]
        for second in range(3):
            shop.aws.time = NOW + second
            shop.called = []
            assert shop.run(*batch_of(*names)) == names
            assert set(shop.called) == set(names)
        shop.called = []
        assert shop.run(*batch_of(*names)) == names
        assert shop.called == []


def _down(name: str) -> None:
    raise NotDone("the provider is down")


def test_a_throttled_takeover_is_repeated_in_its_delivery(shop: Shop) -> None:
    shop.during = _down
    assert shop.run(message("a")) == ["a"]
    shop.during = lambda name: None
    takeovers = [None, refused("ThrottlingException"), None, cancelled("ThrottlingError")]
    with inject(shop.aws.runtime.dynamodb, WRITE, *takeovers) as left:
        assert shop.run(message("a", receive_count=2)) == []
    assert left == []
    assert shop.called[-1:] == ["a"]


def test_effects_of_one_message_group_keep_their_order_beside_other_groups(shop: Shop) -> None:
    groups = Barrier(2)
    shop.during = lambda name: groups.wait(PATIENCE)
    order = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]
    batch = [message(name, group=group, number=n) for n, (name, group) in enumerate(order)]
    assert shop.run(*batch) == []
    assert [sorted(group) for group in shop.writes] == [["a1", "b1"]] * 2 + [["a2", "b2"]] * 2


def test_a_message_that_may_end_the_function_is_called_alone(shop: Shop) -> None:
    often: Any = {"receive_count": 3}
    last: Any = {"receive_count": 5}
    batch = [message("often", **often), *batch_of("a", "b"), message("last", **last)]
    together = Barrier(2)
    shop.during = lambda name: name in "ab" and together.wait(PATIENCE)
    assert shop.run(*batch) == []
    assert [sorted(group) for group in shop.writes] == [
        *([["last"]] * 2),
        *([["a", "b"]] * 2),
        *([["often"]] * 2),
    ]


def test_an_effect_sees_the_context_of_its_handler_alone(shop: Shop) -> None:
    tenant = ContextVar("tenant", default="nobody")
    together, seen = Barrier(3), dict[str, str]()

    def look(name: str) -> None:
        together.wait(PATIENCE)
        seen[name] = tenant.get()

    shop.before = lambda event: tenant.set(f"tenant of {event.name}")
    shop.during = look
    assert shop.run(*batch_of("a", "b", "c")) == []
    assert seen == {name: f"tenant of {name}" for name in "abc"}
    assert tenant.get() == "nobody"


def test_when_no_time_is_left_the_others_are_deleted_and_the_call_is_waited_for(
    shop: Shop,
) -> None:
    deleted = Event()

    def hang(name: str) -> None:
        if name == "hanging":
            assert deleted.wait(PATIENCE)

    def note(model: Any, **_: Any) -> None:
        if model.name == "DeleteMessageBatch":
            deleted.set()

    shop.during = hang
    shop.context.get_remaining_time_in_millis = (  # type: ignore[method-assign]
        lambda: TIME_MARGIN_MS if amounts(shop.aws).get("a") else 30_000
    )
    sqs = shop.aws.runtime.sqs
    sqs.meta.events.register("provide-client-params.sqs", note)
    try:
        assert shop.run(*batch_of("hanging", "a", "b")) == []
    finally:
        sqs.meta.events.unregister("provide-client-params.sqs", note)
    assert amounts(shop.aws) == dict.fromkeys(["first", "hanging", "a", "b"], 1)


class TestAsync:
    """Effects that are `async def` run in one event loop, which outlives the invocation."""

    @pytest.fixture
    def loops(self, shop: Shop) -> list[Any]:
        """The event loop of each call."""
        loops: list[Any] = []
        both = asyncio.Barrier(2)

        async def charge(request: Charge, call: Call) -> Paid:
            loops.append(asyncio.get_running_loop())
            if request.name == "hanging":
                await asyncio.Event().wait()
            if request.name in ("a", "b"):
                await asyncio.wait_for(both.wait(), PATIENCE)
            return Paid(f"of {request.name}")

        effect = shop.consumer.effects["charge"]
        effect.function = charge
        assert list(effect_faults(effect)) == []
        return loops

    def test_they_run_in_one_loop(self, shop: Shop, loops: list[Any]) -> None:
        assert shop.run(*batch_of("a", "b")) == []
        assert shop.run(message("c")) == []
        assert len(loops) == 3
        assert len(set(loops)) == 1
        assert amounts(shop.aws) == dict.fromkeys(["first", *"abc"], 1)

    def test_a_forked_process_has_a_loop_of_its_own(self, shop: Shop, loops: list[Any]) -> None:
        assert shop.run(message("c")) == []
        child = get_context("fork").Process(target=lambda: awaited(asyncio.sleep(0), PATIENCE))
        child.start()
        child.join(PATIENCE)
        assert child.exitcode == 0

    @pytest.mark.parametrize("nested", [False, True])
    @pytest.mark.parametrize("error", [*ENDS, None], ids=lambda error: type(error).__name__)
    def test_one_that_would_end_the_loop_ends_its_own_message(
        self, start: Start, error: BaseException | None, *, nested: bool
    ) -> None:
        shop = Shop(start, policy=Policy.AT_MOST_ONCE).warm_up()
        together = asyncio.Barrier(len(NAMES))

        async def end() -> None:
            if error is not None:
                raise error
            asyncio.get_running_loop().stop()
            raise TimeoutError

        async def charge(request: Charge, call: Call) -> Paid:
            await together.wait()
            if request.name == "n0":
                await (asyncio.gather(end()) if nested else end())
            await asyncio.sleep(0)
            return Paid(f"of {request.name}")

        shop.consumer.effects["charge"].function = charge
        assert shop.run(*batch_of(*NAMES)) == []
        assert_ended_alone(shop, error or TimeoutError())

    def test_one_that_exceeds_its_time_is_cancelled_and_unanswered(
        self, shop: Shop, loops: list[Any]
    ) -> None:
        shop.consumer.effects["charge"].policy = Policy.AT_MOST_ONCE
        assert shop.run(*batch_of("hanging", "c")) == []
        assert reasons(shop.aws) == ["effect-unknown"]
        assert amounts(shop.aws) == dict.fromkeys(["first", "c"], 1)
