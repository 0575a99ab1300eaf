"""Items that messages of one batch share: they never meet in a request, and every one counts."""

from typing import Any

import pytest

from once.handlers.transaction import Transaction
from tests.in_memory import Start
from tests.once.batch.grouping import WRITE, batch_of, faults, groups, message, naming, operations
from tests.once.support import COUNTERS, Note, SoldOut, amounts, calls, consumer_of, count, invoke


class Shared:
    """A consumer whose messages say what they touch, and the way to run it.

    `a` counts on a, `a<b` writes into a what it reads in b, `a?b` counts on a if there is a b,
    `a!b` refuses where it reads no b, and `a=b` fails there; else they count on a.
    """

    def __init__(self, start: Start, **settings: Any) -> None:
        self.handled: list[str] = []
        self.consumer = consumer_of(self.handle)
        self.consumer.rejects(SoldOut)(self.refuse)
        self.aws = start(self.consumer, **settings)

    def handle(self, event: Note, tx: Transaction) -> None:
        self.handled.append(event.name)
        name, how, other = event.name.partition(next((c for c in event.name if c in "<?!="), "<"))
        found = tx.get(COUNTERS, {"name": other}) if how != "?" and other else None
        if how == "?":
            tx.check(COUNTERS, {"name": other}, condition="attribute_exists(amount)")
        if how == "!" and found is None:
            raise SoldOut
        if how == "=" and found is None:
            raise ValueError
        if how == "<" and other:
            tx.put(COUNTERS, {"name": name, "amount": found["amount"] if found else 0})
        else:
            count(Note(name), tx)

    def refuse(self, event: Note, refusal: SoldOut, tx: Transaction) -> None:
        tx.put(COUNTERS, {"name": "refused", "amount": 1})

    def run(self, *names: str) -> list[list[str]]:
        """Work on a batch in which all goes well; return the events in each request."""
        batch = [message(name, f"{name} {i}") for i, name in enumerate(names)]
        with calls(self.aws.runtime.dynamodb) as made:
            assert invoke(self.aws, self.consumer, *batch) == []
        assert len(self.aws.items("dedup")) == len(names)
        return [[event.rpartition(" ")[0] for event in group] for group in groups(made)]


@pytest.fixture
def shared(start: Start) -> Shared:
    return Shared(start)


def test_two_messages_about_one_item_both_count_in_two_requests(shared: Shared) -> None:
    assert shared.run("a", "a") == [["a"], ["a"]]
    assert amounts(shared.aws) == {"a": 2}


def test_ten_messages_about_one_item_all_count(shared: Shared) -> None:
    assert shared.run(*["a"] * 10) == [["a"]] * 10
    assert amounts(shared.aws) == {"a": 10}
    assert shared.handled == ["a"] * 10


def test_each_round_takes_what_it_can_of_every_item(shared: Shared) -> None:
    requests = shared.run("a", "a", "b", "c", "b", "a")
    assert requests == [["a", "b", "c"], ["a", "b"], ["a"]]
    assert amounts(shared.aws) == {"a": 3, "b": 2, "c": 1}


def test_no_two_requests_of_a_round_are_about_one_item(start: Start) -> None:
    # With several threads they would be made side by side, and meet.
    shared = Shared(start, group_size=2)
    assert shared.run("a", "b", "a", "c") == [["a", "b"], ["a", "c"]]


def test_what_waits_for_an_item_keeps_its_turn(shared: Shared) -> None:
    requests = shared.run("a", "a", *(f"n{i}" for i in range(12)))
    assert requests[0] == ["a", *(f"n{i}" for i in range(8))]
    assert requests[1] == ["a", *(f"n{i}" for i in range(8, 12))]


@pytest.mark.parametrize("names", [("b", "a?b"), ("b", "b", "a?b", "c?b")])
def test_a_check_waits_for_a_write_to_the_same_item(shared: Shared, names: tuple[str, ...]) -> None:
    assert shared.run(*names) == [[name] for name in names]
    assert shared.handled == [*names]


def test_two_checks_of_one_item_take_two_requests(shared: Shared) -> None:
    shared.aws.put("counters", {"name": "c", "amount": 5})
    assert shared.run("a?c", "b?c") == [["a?c"], ["b?c"]]
    assert shared.handled == ["a?c", "b?c"]
    assert amounts(shared.aws) == {"a": 1, "b": 1, "c": 5}


def test_a_write_waits_for_a_check_of_the_same_item(shared: Shared) -> None:
    shared.aws.put("counters", {"name": "b", "amount": 5})
    assert shared.run("a?b", "b") == [["a?b"], ["b"]]
    assert amounts(shared.aws) == {"a": 1, "b": 6}


def test_two_that_read_one_item_take_two_requests_and_decide_once_each(shared: Shared) -> None:
    assert shared.run("a<c", "b<c") == [["a<c"], ["b<c"]]
    assert shared.handled == ["a<c", "b<c"]


def test_what_a_neighbour_changes_is_read_anew_without_a_cancelled_request(shared: Shared) -> None:
    assert shared.run("b", "a<b") == [["b"], ["a<b"]]
    assert amounts(shared.aws) == {"b": 1, "a": 1}
    assert shared.handled == ["b", "a<b", "a<b"]


def test_what_was_read_before_a_neighbour_changed_it_is_not_read_anew(shared: Shared) -> None:
    assert shared.run("a<b", "b") == [["a<b"], ["b"]]
    assert amounts(shared.aws) == {"b": 1, "a": 0}
    assert shared.handled == ["a<b", "b"]


def test_after_several_changes_by_neighbours_the_last_is_decided_on_once(shared: Shared) -> None:
    assert shared.run("b", "b", "b", "a<b") == [["b"], ["b"], ["b"], ["a<b"]]
    assert amounts(shared.aws) == {"b": 3, "a": 3}
    assert shared.handled.count("a<b") == 2


def test_several_that_read_what_changes_are_each_handled_once_more(shared: Shared) -> None:
    requests = shared.run("b", "a<b", "c<b", "d")
    assert requests == [["b", "d"], ["a<b"], ["c<b"]]
    assert amounts(shared.aws) == {"b": 1, "a": 1, "c": 1, "d": 1}
    assert [shared.handled.count(name) for name in ("a<b", "c<b", "b", "d")] == [2, 2, 1, 1]


def test_a_refusal_that_a_neighbour_makes_wrong_is_not_committed(shared: Shared) -> None:
    assert shared.run("b", "a!b") == [["b"], ["a!b"]]
    assert amounts(shared.aws) == {"b": 1, "a": 1}


def test_a_handler_that_fails_behind_a_neighbour_is_run_again_after_it(shared: Shared) -> None:
    assert shared.run("b", "a=b", "c") == [["b", "c"], ["a=b"]]
    assert amounts(shared.aws) == dict.fromkeys("abc", 1)
    assert shared.handled.count("a=b") == 2


def test_a_handler_that_fails_all_the_same_is_run_twice_at_most(shared: Shared) -> None:
    assert invoke(shared.aws, shared.consumer, *batch_of("b", "a=x", "c")) == ["a=x"]
    assert amounts(shared.aws) == {"b": 1, "c": 1}
    assert shared.handled.count("a=x") == 2


def test_a_neighbour_that_fails_changes_nothing_that_was_read(shared: Shared) -> None:
    aws, batch = shared.aws, batch_of("b", "a<b", "c")
    with (
        faults(aws.runtime.dynamodb, naming({"b": "ValidationError"})),
        calls(aws.runtime.dynamodb) as made,
    ):
        assert invoke(aws, shared.consumer, *batch) == []
    assert groups(made) == [["b", "c"], ["a<b", "c"]]
    assert amounts(aws) == {"a": 0, "c": 1}


def test_no_update_is_lost_where_all_of_a_batch_read_before_they_write(start: Start) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        seen = tx.get(COUNTERS, {"name": "total"}) or {"amount": 0}
        tx.put(COUNTERS, {"name": "total", "amount": seen["amount"] + event.amount})
        handled.append(event.name)

    handled: list[str] = []
    consumer = consumer_of(handle)
    aws = start(consumer)
    names = [f"n{i}" for i in range(12)]
    with calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, consumer, *batch_of(*names)) == []
    assert amounts(aws) == {"total": 12}
    assert operations(made).count(WRITE) == 12
    assert all(handled.count(name) <= 2 for name in names)


def test_what_had_to_wait_for_others_is_decided_anew_where_they_changed_what_it_read(
    start: Start,
) -> None:
    # `a<b` is named in the first request, and waits while `b` goes.
    shared = Shared(start, group_size=2)
    aws, conflict = shared.aws, naming({"a<b": "TransactionConflict"})
    with faults(aws.runtime.dynamodb, conflict), calls(aws.runtime.dynamodb) as made:
        assert invoke(aws, shared.consumer, *batch_of("a<b", "c", "b")) == []
    assert amounts(aws) == {"a": 1, "b": 1, "c": 1}
    assert groups(made) == [["a<b", "c"], ["c", "b"], ["a<b"]]
