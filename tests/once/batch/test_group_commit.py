"""Groups: messages on disjoint items commit in one request, as many as fit into it."""

from collections.abc import Callable
from threading import get_ident
from typing import Any

import pytest

from once.testing import FakeAws
from once.transaction import Transaction
from tests.once.batch.batches import SECOND, WRITE, Entries, batch_of, events, items, message
from tests.once.batch.function import Make
from tests.once.effects.provider import Till
from tests.once.support import COUNTERS, TABLES, Note, calls, consumer_of, count, invoke


@pytest.mark.parametrize(
    ("group_size", "number", "expected"),
    [
        (10, 10, [10]),
        (10, 11, [10, 1]),
        (10, 30, [10, 10, 10]),
        (3, 10, [3, 3, 3, 1]),
        (2, 2, [2]),
        (50, 49, [49]),
    ],
)
def test_a_request_holds_as_many_messages_as_the_setting_allows(
    make: Make, group_size: int, number: int, expected: list[int]
) -> None:
    function, names = make(group_size=group_size), [f"n{i}" for i in range(number)]
    made = function.run(*batch_of(*names))
    assert made.operations == [WRITE] * len(expected)
    assert made.sizes == expected
    assert [name for group in made.groups for name in group] == names
    assert function.handled == names
    assert function.amounts == dict.fromkeys(names, 1)
    assert len(function.aws.items("dedup")) == number


def test_with_a_group_size_of_one_a_message_commits_before_the_next_is_handled(make: Make) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        before.append(function.amounts)
        count(event, tx)

    before: list[dict[str, int]] = []
    function = make(handle, group_size=1)
    assert function.run(*batch_of("a", "b", "c")).groups == [["a"], ["b"], ["c"]]
    assert before == [{}, {"a": 1}, {"a": 1, "b": 1}]


def test_an_effect_is_completed_before_the_next_message_begins(till: Till) -> None:
    with calls(till.aws.runtime.dynamodb) as made:
        assert invoke(till.aws, till.consumer, *batch_of("a", "b", **SECOND)) == []
    assert [name for name, _ in made] == [WRITE] * 4
    assert [events(p["TransactItems"]) for _, p in made] == [["a"], ["a"], ["b"], ["b"]]
    assert len(till.provider.charges) == 2


def writing(number: int, **more: Any) -> Callable[[Note, Transaction], None]:
    """A handler that writes so many items, or as many as the amount of the event says."""

    def handle(event: Note, tx: Transaction) -> None:
        for i in range(number if event.amount == 1 else event.amount):
            tx.put(COUNTERS, {"name": f"{event.name}-{i}", "amount": 1, **more})

    return handle


@pytest.mark.parametrize(
    ("number", "expected"), [(0, [10]), (9, [10]), (10, [9, 1]), (49, [2, 1]), (50, [1, 1])]
)
def test_a_request_has_at_most_a_hundred_actions_including_records(
    make: Make, number: int, expected: list[int]
) -> None:
    function, names = make(writing(number)), [f"n{i}" for i in range(sum(expected))]
    assert function.run(*batch_of(*names)).sizes == expected
    assert len(function.amounts) == number * len(names)


def test_a_request_has_at_most_four_megabytes(make: Make) -> None:
    function = make(writing(5, text="x" * 390_000))  # 1.95 MB a message
    assert function.run(*batch_of("a", "b", "c")).groups == [["a", "b"], ["c"]]


def test_a_message_that_fits_into_no_group_commits_alone(make: Make) -> None:
    batch = [*batch_of("a", "b"), message("large", amount=99), *batch_of("c", "d")]
    assert make(writing(1)).run(*batch).groups == [["a", "b"], ["large"], ["c", "d"]]


def test_with_one_thread_groups_commit_one_after_the_other(make: Make) -> None:
    def note_thread(entries: Entries) -> None:
        threads.append(get_ident())

    threads: list[int] = []
    make(writing(49), commit_threads=1).run(*batch_of(*"abcde"), writes=note_thread)
    assert threads == [get_ident()] * 3


def test_each_record_of_a_group_holds_the_events_of_its_own_message(make: Make) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        tx.publish("counted", {"name": event.name})

    function = make(handle, publishes=("counted",))
    assert function.run(*batch_of("a", "b", "c")).groups == [["a", "b", "c"]]
    stored = {r["pk"].rpartition("#")[2]: r["outbox"] for r in function.aws.items("dedup")}
    assert all(f'"name":"{name}"' in outbox for name, outbox in stored.items())
    assert sorted(event["data"]["name"] for event in function.aws.published()) == ["a", "b", "c"]


def test_items_with_one_key_in_two_tables_commit_together() -> None:
    def handle(event: Note, tx: Transaction) -> None:
        table = COUNTERS if event.amount == 1 else others
        tx.put(table, {"name": event.name, "amount": 1})

    consumer = consumer_of(handle)
    others = consumer.table("others")
    batch = [message("same", "a"), message("same", "b", amount=2)]
    with FakeAws(consumer, dict.fromkeys((*TABLES, "others"), "name")) as aws:
        with calls(aws.runtime.dynamodb) as made:
            assert invoke(aws, consumer, *batch) == []
        [entries] = [parameters["TransactItems"] for _, parameters in made]
        assert items(entries)[1::2] == ["counters same", "others same"]
