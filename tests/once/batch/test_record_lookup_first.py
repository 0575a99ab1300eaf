"""Looking first: what was delivered before is looked up in one read, and not risked in a group."""

from collections.abc import Sequence
from typing import Any

import pytest

from once.consumer import Consumer
from once.errors import PermanentError
from once.handlers.transaction import Transaction
from once.schema import CLOCK_MARGIN_SECONDS
from once.testing import FakeAws, FakeContext
from tests.in_memory import Start
from tests.once.batch.grouping import READ, WRITE, batch_of, groups, message, operations
from tests.once.effects import provider
from tests.once.effects.provider import NOW, Killed, Provider
from tests.once.support import (
    Call,
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    invoke,
    reasons,
    record,
)

TEN = [f"n{i}" for i in range(10)]
AGAIN: Any = {"receive_count": 2}

handled: list[str] = []


def handle(event: Note, tx: Transaction) -> None:
    handled.append(event.name)
    if event.name == "bad":
        raise PermanentError
    count(event, tx)


@pytest.fixture
def consumer() -> Consumer:
    handled.clear()
    return consumer_of(handle)


@pytest.fixture
def aws(start: Start, consumer: Consumer) -> FakeAws:
    return start(consumer)


def seed(aws: FakeAws, consumer: Consumer, *names: str) -> None:
    """Let events be committed, and forget that they were handled."""
    assert invoke(aws, consumer, *batch_of(*names)) == []
    handled.clear()


def asked(made: Sequence[Call]) -> list[list[str]]:
    """The ids of the events that each read asks for."""
    requests = [p["RequestItems"]["dedup"] for operation, p in made if operation == READ]
    return [[key["pk"]["S"].rpartition("#")[2] for key in r["Keys"]] for r in requests]


def test_ten_known_duplicates_are_one_consistent_read_and_no_handler_runs(
    aws: FakeAws, consumer: Consumer
) -> None:
    seed(aws, consumer, *TEN)
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*TEN, **AGAIN)) == []
    assert operations(made) == [READ]
    assert asked(made) == [TEN]
    assert made[0][1]["RequestItems"]["dedup"]["ConsistentRead"] is True
    assert handled == []
    assert amounts(aws) == dict.fromkeys(TEN, 1)


def test_what_was_delivered_before_and_is_new_commits_in_its_group(
    aws: FakeAws, consumer: Consumer
) -> None:
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*TEN, **AGAIN)) == []
    assert operations(made) == [READ, WRITE]
    assert groups(made) == [TEN]
    assert amounts(aws) == dict.fromkeys(TEN, 1)


def test_only_what_was_delivered_before_is_looked_up(aws: FakeAws, consumer: Consumer) -> None:
    seed(aws, consumer, "known")
    batch = [*batch_of("a", "b"), *batch_of("known", "new", **AGAIN), record("{", "bad", **AGAIN)]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch) == []
    assert asked(made) == [["known", "new"]]
    assert groups(made) == [["a", "b", "new"]]
    assert reasons(aws) == ["unparseable"]


def test_first_deliveries_are_not_looked_up(aws: FakeAws, consumer: Consumer) -> None:
    with calls(aws.runtime.dynamodb) as made:
        invoke(aws, consumer, *batch_of(*TEN))
    assert operations(made) == [WRITE]


def test_one_message_alone_is_not_looked_up(aws: FakeAws, consumer: Consumer) -> None:
    seed(aws, consumer, "a")
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of("a", **AGAIN)) == []
    assert operations(made) == [WRITE]


def test_with_groups_of_one_nothing_is_looked_up(start: Start, consumer: Consumer) -> None:
    aws = start(consumer, group_size=1)
    seed(aws, consumer, "a")
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of("a", "b", **AGAIN)) == []
    assert groups(made) == [["a"], ["b"]]
    assert operations(made) == [WRITE, WRITE]


def test_when_the_time_is_up_nothing_is_looked_up(aws: FakeAws, consumer: Consumer) -> None:
    with calls(aws.runtime.dynamodb) as made:
        failed = invoke(aws, consumer, *batch_of("a", "b", **AGAIN), context=FakeContext(0))
    assert failed == ["a", "b"]
    assert made == []


def test_a_key_conflict_is_found_without_a_write(aws: FakeAws, consumer: Consumer) -> None:
    seed(aws, consumer, "a", "b")
    batch = [message("a", amount=5, **AGAIN), message("b", **AGAIN)]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch) == []
    assert operations(made) == [READ]
    assert reasons(aws) == ["key-conflict"]
    assert amounts(aws) == {"a": 1, "b": 1}


@pytest.mark.parametrize(("seconds_after", "amount"), [(0, 1), (1, 2)])
def test_an_expired_record_is_no_record(
    aws: FakeAws, consumer: Consumer, seconds_after: int, amount: int
) -> None:
    aws.time = NOW
    seed(aws, consumer, "a")
    window = aws.runtime.settings.dedup_window_seconds
    aws.time = NOW + window + CLOCK_MARGIN_SECONDS + seconds_after
    assert invoke(aws, consumer, *batch_of("a", "b", **AGAIN)) == []
    assert amounts(aws) == {"a": amount, "b": 1}


def test_a_pending_record_is_neither_new_nor_a_duplicate(start: Start, consumer: Consumer) -> None:
    # The consumer had an effect once, and was killed at it.
    shop = Provider(plan=[Killed()])
    before = provider.consumer_of(shop)
    aws = start(before, **provider.SETTINGS)
    with pytest.raises(Killed):
        invoke(aws, before, *batch_of("a"))
    assert invoke(aws, consumer, *batch_of("a", "b", **AGAIN)) == []
    assert reasons(aws) == ["effect-unknown"]
    assert handled == ["b"]
    assert amounts(aws) == {"b": 1}


def test_a_poison_message_among_those_looked_up_costs_its_neighbours_nothing(
    aws: FakeAws, consumer: Consumer
) -> None:
    seed(aws, consumer, "known")
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of("known", "bad", "new", **AGAIN)) == []
    assert groups(made) == [["new"]]
    assert reasons(aws) == ["permanent"]


def test_what_is_committed_elsewhere_after_the_look_is_a_duplicate_all_the_same(
    start: Start,
) -> None:
    def overtaken(event: Note, tx: Transaction) -> None:
        if event.name == "first":
            invoke(aws, other, *batch_of("second"))
        count(event, tx)

    consumer, other = consumer_of(overtaken), consumer_of()
    aws = start(consumer)
    assert invoke(aws, consumer, *batch_of("first", "second", **AGAIN)) == []
    assert amounts(aws) == {"first": 1, "second": 1}
    assert aws.dead_letters() == []


def test_the_same_key_twice_is_asked_for_once(aws: FakeAws, consumer: Consumer) -> None:
    # DynamoDB refuses to read a key twice in one request.
    seed(aws, consumer, "a", "b")
    batch = [message("a", **AGAIN), message("b", **AGAIN), message("a", message_id="m", **AGAIN)]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch) == []
    assert operations(made) == [READ]
    assert handled == []


def test_more_than_a_hundred_take_a_second_read(aws: FakeAws, consumer: Consumer) -> None:
    names = [f"n{i}" for i in range(101)]
    seed(aws, consumer, *names)
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*names, **AGAIN)) == []
    assert operations(made) == [READ, READ]
    assert asked(made) == [names[:100], names[100:]]
