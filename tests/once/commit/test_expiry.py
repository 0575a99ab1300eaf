"""Expiry of dedup records: the condition of the put is the window, TTL only deletes."""

import pytest

from once.commit.result import BUSY, COMMITTED, DUPLICATE, CommitResult
from once.names import CLOCK_MARGIN_SECONDS, CLOCK_SKEW_SECONDS
from once.testing import inject, never_sent
from tests.in_memory import Start
from tests.once.support import Bench, amounts

THEN = 1_800_000_000
WINDOW = 86_400
END = THEN + WINDOW + CLOCK_MARGIN_SECONDS

MOMENTS = [
    pytest.param(THEN, DUPLICATE, id="at once"),
    pytest.param(THEN - 3600, DUPLICATE, id="on a slow clock"),
    pytest.param(THEN + WINDOW, DUPLICATE, id="as the window ends"),
    pytest.param(THEN + WINDOW + 1, DUPLICATE, id="just past the window"),
    pytest.param(THEN + WINDOW + 2 * CLOCK_SKEW_SECONDS, DUPLICATE, id="as clocks differ most"),
    pytest.param(END, DUPLICATE, id="as the margin ends"),
    pytest.param(END + 0.9, DUPLICATE, id="in the margin's last second"),
    pytest.param(END + 1, None, id="past the margin"),
    pytest.param(END + 10**7, None, id="long past the margin"),
]


@pytest.fixture
def then(start: Start) -> Bench:
    """A bench with a committed event."""
    bench = Bench(start(dedup_window_seconds=WINDOW))
    bench.aws.time = THEN
    assert bench.commit(bench.counting()) == [COMMITTED]
    return bench


@pytest.mark.parametrize(("now", "expected"), MOMENTS)
def test_the_condition_expires_a_key_after_the_margin(
    then: Bench, now: float, expected: CommitResult | None
) -> None:
    then.aws.time = now
    assert then.commit(then.counting()) == [expected or COMMITTED]
    assert amounts(then.aws) == {"a": 1 if expected else 2}


@pytest.mark.parametrize(("now", "expected"), MOMENTS)
def test_the_look_up_expires_a_key_when_the_condition_does(
    then: Bench, now: float, expected: CommitResult | None
) -> None:
    then.aws.time = now
    with inject(then.client, "TransactWriteItems", never_sent()):
        assert then.commit(then.counting()) == [expected or BUSY]


def test_an_expired_key_is_taken_by_a_new_event_for_a_window_of_its_own(then: Bench) -> None:
    then.aws.time = END + 1
    assert then.commit(then.counting(fingerprint="other")) == [COMMITTED]
    [record] = then.aws.items("dedup")
    assert record["fingerprint"] == "other"
    assert record["expires_at"] == END + 1 + WINDOW
    then.aws.time = END + WINDOW
    assert then.commit(then.counting(fingerprint="other")) == [DUPLICATE]
