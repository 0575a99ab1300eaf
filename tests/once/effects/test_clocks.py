"""Functions whose clocks differ: each is at most five minutes from true time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from once.commit.result import COMMITTED, DUPLICATE
from once.handlers.effect_declaration import Policy
from once.schema import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS, Limits
from once.testing import FakeAws
from tests.in_memory import Start
from tests.once.effects.provider import LEASE, LIFETIME, NOW, Killed, Provider, Till, start_till
from tests.once.support import Bench, amounts, calls, note, reasons

LONGEST_TIMEOUT_SECONDS = 900
AHEAD = [LEASE, 60, CLOCK_MARGIN_SECONDS]
"""By how many seconds the second function's clock is ahead of the first one's."""

Make = Callable[[Policy], Till]


@pytest.fixture
def make(start: Start) -> Make:
    return lambda policy: start_till(start, Provider(), policy=policy)


@contextmanager
def ahead(aws: FakeAws, seconds: float) -> Iterator[None]:
    """Let a function run whose clock is ahead of the others'."""
    assert aws.time is not None
    aws.time += seconds
    try:
        yield
    finally:
        aws.time -= seconds


def deliver_twice(till: Till, event: Any, seconds: float) -> tuple[bool, bool]:
    """Deliver an event again while its first delivery is at the call; tell which is acknowledged.

    The clock of the second function is ahead.
    """
    second: list[bool] = []

    def meanwhile() -> None:
        with ahead(till.aws, seconds):
            second.append(till.deliver(event))

    till.provider.plan = [meanwhile]
    first = till.deliver(event)
    return first, second[0]


@pytest.mark.parametrize("seconds", AHEAD)
def test_at_most_once_is_not_declared_unknown_while_its_owner_is_at_it(
    make: Make, seconds: int
) -> None:
    till = make(Policy.AT_MOST_ONCE)
    assert deliver_twice(till, note(), seconds) == (True, False)
    assert reasons(till.aws) == []
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1}


@pytest.mark.parametrize("seconds", AHEAD)
def test_at_least_once_is_not_called_again_while_its_owner_is_at_it(
    make: Make, seconds: int
) -> None:
    till = make(Policy.AT_LEAST_ONCE)
    assert deliver_twice(till, note(), seconds) == (True, False)
    assert len(till.provider.calls) == 1
    assert amounts(till.aws) == {"a": 1}


def test_a_provider_key_is_taken_over_as_its_lease_ends_and_charged_once(make: Make) -> None:
    # The margin would only delay it: the provider collapses the second call.
    till = make(Policy.PROVIDER_KEY)
    assert deliver_twice(till, note(), 60) == (True, True)
    assert len(till.provider.calls) == 2
    assert len(till.provider.charges) == 1
    assert amounts(till.aws) == {"a": 1}
    assert reasons(till.aws) == []


def test_a_key_about_to_be_forgotten_is_not_declared_unknown_while_its_owner_is_at_it(
    make: Make,
) -> None:
    till, event = make(Policy.PROVIDER_KEY), note()
    till.provider.plan = [Killed()]
    assert till.killed(event)
    till.later(LIFETIME - CLOCK_MARGIN_SECONDS - 1)  # its last takeover
    assert deliver_twice(till, event, 60) == (True, False)
    assert reasons(till.aws) == []
    assert amounts(till.aws) == {"a": 1}


def test_x4_a_key_that_a_fast_clock_wrote_down_is_not_used_too_long_by_a_slow_one(
    make: Make,
) -> None:
    till, event = make(Policy.PROVIDER_KEY), note()
    till.provider.plan = [Killed()]
    with ahead(till.aws, CLOCK_SKEW_SECONDS):
        assert till.killed(event)
    till.later(LIFETIME)
    with ahead(till.aws, -CLOCK_SKEW_SECONDS):
        assert till.deliver(event)
    assert len(till.provider.calls) == 1
    assert reasons(till.aws) == ["effect-unknown"]


@pytest.mark.parametrize("skew", [-CLOCK_MARGIN_SECONDS, 0, CLOCK_MARGIN_SECONDS])
def test_the_delay_until_a_takeover_is_one_that_sqs_takes(make: Make, skew: int) -> None:
    till, event = make(Policy.AT_MOST_ONCE), note()
    till.provider.plan = [Killed()]
    with pytest.raises(Killed):
        till.deliver(event, remaining_ms=LONGEST_TIMEOUT_SECONDS * 1000)
    with ahead(till.aws, skew), calls(till.aws.runtime.sqs) as made:
        assert not till.deliver(event)
    [(_, parameters)] = made
    delay = parameters["VisibilityTimeout"]
    assert delay == LONGEST_TIMEOUT_SECONDS + CLOCK_MARGIN_SECONDS - skew
    assert delay + LONGEST_TIMEOUT_SECONDS < Limits.VISIBILITY_SECONDS


def test_where_all_functions_share_one_clock_there_is_no_margin(start: Start) -> None:
    till = start_till(start, Provider(), policy=Policy.AT_LEAST_ONCE, margin=0)
    event = note()
    till.provider.plan = [Killed()]
    assert till.killed(event)
    till.later(LEASE)
    assert till.deliver(event)


def test_d3_a_key_is_remembered_for_its_window_whichever_clocks_wrote_and_read_it(
    start: Start,
) -> None:
    window = 86_400
    bench = Bench(start(dedup_window_seconds=window))
    bench.aws.time = NOW
    with ahead(bench.aws, -CLOCK_SKEW_SECONDS):
        assert bench.commit(bench.counting()) == [COMMITTED]
    bench.aws.time = NOW + window
    with ahead(bench.aws, CLOCK_SKEW_SECONDS):
        assert bench.commit(bench.counting()) == [DUPLICATE]
    assert amounts(bench.aws) == {"a": 1}
