"""The size of groups: as many as go together without being spoilt often."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.batch.group_size import GroupSize
from once.commit.result import CommitOutcome, CommitResult, failed
from once.consumer import Consumer, LambdaHandler
from once.disposition import Disposition
from once.errors import CommitRefused, InvalidWrite, OnceError, OutcomeUnknown
from once.testing import FakeAws, FakeContext
from tests.in_memory import Start
from tests.once.batch.grouping import Choose, batch_of, calm, faults, groups, message, naming
from tests.once.support import calls, consumer_of, failures, quick

DUPLICATE, COMMITTED = Disposition.DUPLICATE, Disposition.COMMITTED
GOOD, SPOILT = CommitOutcome.COMMITTED, CommitOutcome.CONTENDED
LIMITS = [1, 2, 10, 50]


def after(limit: int, *kinds: CommitOutcome) -> GroupSize:
    size = GroupSize(limit)
    for kind in kinds:
        size.learn([CommitResult(kind)])
    return size


def at_a_rate_of(one_in: int, limit: int = 10) -> tuple[float, float]:
    """The smallest and the largest size where regularly one message in so many spoils."""
    size = after(limit, *([*[GOOD] * (one_in - 1), SPOILT] * 1000)[:2000])
    seen: list[int] = []
    for i in range(one_in):
        size.learn([CommitResult(SPOILT if i == one_in - 1 else GOOD)])
        seen.append(size.size)
    return min(seen), max(seen)


@pytest.mark.parametrize("limit", LIMITS)
def test_it_starts_at_its_limit(limit: int) -> None:
    assert GroupSize(limit).size == limit


@pytest.mark.parametrize(
    ("spoilt", "smallest", "largest"),
    [
        (0, 50, 50),
        (1, 8, 11),
        (2, 4, 6),
        (3, 3, 4),
        (4, 2, 3),
        (6, 2, 2),
        (11, 1, 1),
        (500, 1, 1),
    ],
)
def test_each_that_spoils_its_request_makes_groups_smaller_at_once(
    spoilt: int, smallest: int, largest: int
) -> None:
    # One more than a tenth over the share, at most; and not so few that little is saved.
    assert smallest <= after(50, *[SPOILT] * spoilt).size <= largest


@pytest.mark.parametrize(
    ("one_in", "smallest", "largest"),
    [(1000, 8, 10), (200, 6, 10), (100, 5, 10), (50, 3, 7), (20, 2, 3), (10, 1, 2), (5, 1, 1)],
)
def test_the_size_follows_the_share_that_spoils(one_in: int, smallest: int, largest: int) -> None:
    low, high = at_a_rate_of(one_in)
    assert smallest <= low <= high <= largest


@pytest.mark.parametrize("kind", CommitOutcome)
def test_what_makes_others_go_again_spoils_and_what_is_nobodys_fault_does_not(
    kind: CommitOutcome,
) -> None:
    harmless = kind in {
        CommitOutcome.COMMITTED,
        CommitOutcome.UNAFFECTED,
        CommitOutcome.BUSY,
        CommitOutcome.UNATTRIBUTED,
    }
    assert after(10, *[kind] * 20).size == (10 if harmless else 1)


@pytest.mark.parametrize(
    ("error", "size"), [(InvalidWrite("x"), 1), (OutcomeUnknown("x"), 10), (CommitRefused("x"), 10)]
)
def test_what_a_smaller_group_would_have_met_as_well_spoils_nothing(
    error: OnceError, size: int
) -> None:
    grouping = GroupSize(10)
    for _ in range(20):
        grouping.learn([failed(error)])
    assert grouping.size == size


def test_what_spoilt_groups_long_ago_is_forgotten() -> None:
    size = after(10, *[SPOILT] * 1000)
    messages = 0
    while size.size < 10:
        size.learn([CommitResult(GOOD)])
        messages += 1
    assert 100 <= messages <= 1000


@quick
@given(st.sampled_from(LIMITS), st.lists(st.sampled_from(list(CommitOutcome)), max_size=300))
def test_the_size_stays_between_one_and_the_limit(limit: int, kinds: list[CommitOutcome]) -> None:
    assert 1 <= after(limit, *kinds).size <= limit


def with_duplicates(limit: int, one_in: int) -> GroupSize:
    size = GroupSize(limit)
    for i in range(3000):
        size.learn([], [(DUPLICATE if i % one_in == one_in - 1 else COMMITTED, 1)])
    return size


@pytest.mark.parametrize(
    ("limit", "one_in", "looks"),
    [
        (10, 1, True),
        (10, 50, True),
        (10, 400, False),
        (10, 3001, False),
        (2, 5, True),
        (2, 20, False),
        (50, 200, True),
        (1, 1, False),
    ],
)
def test_it_looks_up_all_where_duplicates_would_cost_more_than_a_tenth(
    limit: int, one_in: int, *, looks: bool
) -> None:
    assert with_duplicates(limit, one_in).looks_up_all is looks


def test_when_duplicates_are_gone_it_stops_looking() -> None:
    size = with_duplicates(10, 1)
    messages = 0
    while size.looks_up_all:
        size.learn([], [(COMMITTED, 1)])
        messages += 1
    assert 100 <= messages <= 1000


class Warm:
    """A function that stays warm."""

    def __init__(self, aws: FakeAws, consumer: Consumer) -> None:
        self.client = aws.runtime.dynamodb
        self.handle: LambdaHandler = consumer.bound_to(aws.runtime)

    def sizes(self, *batch: Any, fault: Choose = calm) -> list[int]:
        """Work on a batch; return how many messages stand in each request."""
        with faults(self.client, fault), calls(self.client) as made:
            assert failures(self.handle({"Records": list(batch)}, FakeContext())) == []
        return [len(group) for group in groups(made)]


NAMES = [f"n{i}" for i in range(10)]
FIRST, SECOND = batch_of(*NAMES), batch_of(*(f"other {name}" for name in NAMES))


@pytest.fixture
def warm(start: Start) -> Warm:
    consumer = consumer_of()
    return Warm(start(consumer), consumer)


def test_a_function_learns_for_as_long_as_it_is_warm(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    warm, cold = Warm(aws, consumer), Warm(aws, consumer)
    half = dict.fromkeys(NAMES[:5], "TransactionConflict")
    assert warm.sizes(*FIRST, fault=naming(half))[0] == 10
    assert 2 <= max(warm.sizes(*SECOND)) <= 3
    assert cold.sizes(*batch_of(*(f"third {name}" for name in NAMES))) == [10]


def test_a_message_that_tries_often_is_learnt_from_once(warm: Warm) -> None:
    often = naming({"n0": "TransactionConflict"}, times=8)
    assert warm.sizes(*FIRST, fault=often).count(1) == 8
    assert max(warm.sizes(*SECOND)) >= 8


def test_items_that_neighbours_share_are_no_reason_for_smaller_groups(warm: Warm) -> None:
    pairs = [message(name, f"{name} {i}") for i in range(6) for name in ("a", "b")]
    assert warm.sizes(*pairs) == [2] * 6
    assert warm.sizes(*FIRST) == [10]
