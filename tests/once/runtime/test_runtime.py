"""The runtime: delays with jitter, and the time that is left for pauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.runtime.deadline import Deadline, full_jitter
from tests.once.support import quick


@quick
@given(st.integers(0, 2000), st.floats(0.5, 100), st.floats(0.5, 1000))
def test_a_delay_lies_anywhere_between_zero_and_its_bound(
    attempt: int, base: float, cap: float
) -> None:
    bound = cap if attempt > 1000 else min(cap, base * 2**attempt)
    delays = [full_jitter(attempt, base=base, cap=cap) for _ in range(60)]
    assert 0 <= min(delays) <= max(delays) <= bound
    assert min(delays) < bound / 2 < max(delays)


@pytest.mark.usefixtures("longest_delays")
def test_pauses_double_up_to_a_second() -> None:
    slept: list[float] = []
    deadline = Deadline(lambda: 60_000, 0, slept.append)
    assert all(deadline.pause(attempt) for attempt in range(8))
    assert slept == [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize(("remaining_ms", "paused"), [(126, True), (125, False), (0, False)])
def test_a_pause_that_would_use_up_the_time_is_not_begun(
    *, remaining_ms: int, paused: bool
) -> None:
    slept: list[float] = []
    assert Deadline(lambda: remaining_ms, 100, slept.append).pause(0) is paused
    assert len(slept) == paused


def test_the_margin_is_kept_back_from_the_time_until_lambda_ends_the_function() -> None:
    deadline = Deadline(lambda: 12_345, 5_000)
    assert (deadline.seconds, deadline.seconds_to_the_end) == (7.345, 12.345)
