"""Groups: messages about disjoint items commit in one request, as many as fit into it."""

from threading import get_ident
from typing import Any

import pytest

from once.consumer import Consumer
from once.handlers.transaction import Transaction
from once.testing import FakeAws
from tests.in_memory import Start
from tests.once.batch.grouping import (
    WRITE,
    Entries,
    batch_of,
    faults,
    groups,
    message,
    operations,
    places,
)
from tests.once.effects.provider import Till
from tests.once.support import (
    COUNTERS,
    TABLES,
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    invoke,
)

TEN = [f"n{i}" for i in range(10)]


def test_ten_messages_about_disjoint_items_are_one_request(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*TEN)) == []
    assert operations(made) == [WRITE]
    assert groups(made) == [TEN]
    assert amounts(aws) == dict.fromkeys(TEN, 1)
    assert len(aws.items("dedup")) == 10


@pytest.mark.parametrize(
    ("group_size", "number", "expected"),
    [(10, 11, [10, 1]), (10, 30, [10, 10, 10]), (3, 10, [3, 3, 3, 1]), (2, 2, [2]), (50, 49, [49])],
)
def test_a_request_holds_as_many_messages_as_the_setting_says(
    start: Start, group_size: int, number: int, expected: list[int]
) -> None:
    consumer = consumer_of()
    aws = start(consumer, group_size=group_size)
    names = [f"n{i}" for i in range(number)]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*names)) == []
    assert [len(group) for group in groups(made)] == expected
    assert [name for group in groups(made) for name in group] == names
    assert amounts(aws) == dict.fromkeys(names, 1)


def test_with_a_group_size_of_one_each_message_commits_before_the_next_is_handled(
    start: Start,
) -> None:
    before: list[dict[str, int]] = []

    def handle(event: Note, tx: Transaction) -> None:
        before.append(amounts(aws))
        count(event, tx)

    consumer = consumer_of(handle)
    aws = start(consumer, group_size=1)
    with calls(aws.runtime.dynamodb) as made:
        invoke(aws, consumer, *batch_of("a", "b", "c"))
    assert groups(made) == [["a"], ["b"], ["c"]]
    assert before == [{}, {"a": 1}, {"a": 1, "b": 1}]


def test_a_consumer_with_effects_ends_each_before_it_begins_the_next(till: Till) -> None:
    with calls(till.aws.runtime.dynamodb) as made:
        assert invoke(till.aws, till.consumer, *batch_of("a", "b", receive_count=2)) == []
    assert operations(made) == [WRITE] * 4
    assert groups(made) == [["a"], ["a"], ["b"], ["b"]]
    assert len(till.provider.charges) == 2


def writing(number: int, **more: Any) -> Consumer:
    """A consumer whose messages write so many items each, or as many as their amount says."""

    def handle(event: Note, tx: Transaction) -> None:
        for i in range(number if event.amount == 1 else event.amount):
            tx.put(COUNTERS, {"name": f"{event.name}-{i}", "amount": 1, **more})

    return consumer_of(handle)


@pytest.mark.parametrize(
    ("number", "expected"), [(0, [10]), (9, [10]), (10, [9, 1]), (49, [2, 1]), (50, [1, 1])]
)
def test_a_request_has_no_more_than_a_hundred_actions_the_records_among_them(
    start: Start, number: int, expected: list[int]
) -> None:
    consumer = writing(number)
    aws = start(consumer)
    names = TEN[: sum(expected)]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*names)) == []
    assert [len(group) for group in groups(made)] == expected
    assert len(amounts(aws)) == number * len(names)


def test_what_fits_into_no_group_goes_by_itself(start: Start) -> None:
    consumer = writing(1)
    aws = start(consumer)
    batch = [message("a"), message("b"), message("large", amount=99), message("c"), message("d")]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch) == []
    assert groups(made) == [["a", "b"], ["large"], ["c", "d"]]


def test_a_request_has_no_more_than_four_megabytes(start: Start) -> None:
    consumer = writing(5, text="x" * 390_000)  # 1.95 MB a message
    aws = start(consumer)
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of("a", "b", "c")) == []
    assert groups(made) == [["a", "b"], ["c"]]


def test_with_one_thread_groups_go_one_after_the_other(start: Start) -> None:
    threads: list[int] = []

    def note_thread(entries: Entries) -> None:
        threads.append(get_ident())

    consumer = writing(49)
    aws = start(consumer, commit_threads=1)
    with faults(aws.runtime.dynamodb, note_thread):
        assert invoke(aws, consumer, *batch_of(*TEN[:5])) == []
    assert threads == [get_ident()] * 3


def test_what_each_message_publishes_stands_in_its_own_record(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        tx.publish("counted", {"name": event.name})

    consumer = consumer_of(handle)
    aws = start(consumer, publishes=("counted",))
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of("a", "b", "c")) == []
    assert groups(made) == [["a", "b", "c"]]
    records = {item["pk"].rpartition("#")[2]: item["outbox"] for item in aws.items("dedup")}
    assert all(f'"name":"{name}"' in outbox for name, outbox in records.items())
    assert sorted(event["data"]["name"] for event in aws.published()) == ["a", "b", "c"]


def test_handlers_run_in_the_order_of_the_batch_and_once_each(start: Start) -> None:
    handled: list[str] = []

    def handle(event: Note, tx: Transaction) -> None:
        handled.append(event.name)
        count(event, tx)

    consumer = consumer_of(handle)
    names = [f"n{i}" for i in range(25)]
    assert invoke(start(consumer), consumer, *batch_of(*names)) == []
    assert handled == names


def test_what_shares_a_table_with_a_neighbour_and_no_item_is_no_reason_to_wait(
    start: Start,
) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        table = COUNTERS if event.amount == 1 else others
        tx.put(table, {"name": event.name, "amount": 1})

    consumer = consumer_of(handle)
    others = consumer.table("others")
    with FakeAws(consumer, dict.fromkeys((*TABLES, "others"), "name")) as aws:
        with calls(aws.runtime.dynamodb) as made:
            batch = [message("same", "a"), message("same", "b", amount=2)]
            assert invoke(aws, consumer, *batch) == []
        assert groups(made) == [["a", "b"]]
        assert places(made[0][1]["TransactItems"])[1::2] == ["counters same", "others same"]
