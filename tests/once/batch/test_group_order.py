"""Order in groups: message groups of FIFO queues, keys that come twice, and suspects."""

from contextlib import suppress
from typing import Any

import pytest

from once.handlers.transaction import Transaction
from once.testing import never_sent, refused
from tests.in_memory import Start
from tests.once.batch.grouping import Choose, batch_of, calm, faults, groups, message, naming
from tests.once.effects.provider import Killed
from tests.once.support import (
    Note,
    SoldOut,
    amounts,
    calls,
    consumer_of,
    count,
    invoke,
    reasons,
)

THIRD: Any = {"receive_count": 3}


class Queue:
    """A function whose handler does what the first word of a counter's name says."""

    def __init__(self, start: Start, **settings: Any) -> None:
        self.handled: list[str] = []
        self.consumer = consumer_of(self._handle)
        self.consumer.rejects(SoldOut)(lambda event, refusal, tx: None)
        self.aws = start(self.consumer, **settings)

    def _handle(self, event: Note, tx: Transaction) -> None:
        self.handled.append(event.name)
        match event.name.split()[0]:
            case "fail":
                raise ValueError
            case "refuse":
                raise SoldOut
            case "kill":
                raise Killed
        count(event, tx)

    def run(self, *batch: Any, fault: Choose = calm) -> list[list[str]]:
        client = self.aws.runtime.dynamodb
        self.reported: list[str] | None = None
        with faults(client, fault), calls(client) as made, suppress(Killed):
            self.reported = invoke(self.aws, self.consumer, *batch)
        return groups(made)


@pytest.fixture
def queue(start: Start) -> Queue:
    return Queue(start)


def of(group: str, *names: str) -> list[dict[str, Any]]:
    return batch_of(*names, group=group)


def woven(*lines: list[Any]) -> list[Any]:
    return [message for turn in zip(*lines, strict=True) for message in turn]


THREE_AND_THREE = woven(of("g", "g1", "g2", "g3"), of("h", "h1", "h2", "h3"))


def test_of_each_message_group_one_is_in_flight(queue: Queue) -> None:
    assert queue.run(*THREE_AND_THREE) == [["g1", "h1"], ["g2", "h2"], ["g3", "h3"]]
    assert queue.handled == ["g1", "h1", "g2", "h2", "g3", "h3"]


def test_the_next_of_a_message_group_is_handled_after_the_one_before_has_committed(
    start: Start,
) -> None:
    def handle(event: Note, tx: Transaction) -> None:
        seen.append((event.name, amounts(aws)))
        count(event, tx)

    seen: list[Any] = []
    consumer = consumer_of(handle)
    aws = start(consumer)
    invoke(aws, consumer, *of("g", "g1", "g2", "g3"))
    assert seen == [("g1", {}), ("g2", {"g1": 1}), ("g3", {"g1": 1, "g2": 1})]


@pytest.mark.parametrize(
    "fault", [refused("ThrottlingException"), never_sent()], ids=["throttled", "unanswered"]
)
def test_while_a_request_goes_again_the_next_of_its_message_groups_wait(
    queue: Queue, fault: Any
) -> None:
    waiting = [fault, fault]
    made = queue.run(*THREE_AND_THREE, fault=lambda _: waiting.pop() if waiting else None)
    assert made == [["g1", "h1"]] * 3 + [["g2", "h2"], ["g3", "h3"]]
    assert queue.reported == []


def test_a_conflict_in_one_message_group_lets_the_others_go_on(queue: Queue) -> None:
    conflict = naming({"g1": "TransactionConflict"}, times=2)
    made = queue.run(*THREE_AND_THREE, fault=conflict)
    others = [["g1", "h1"], ["h1"], ["h2"], ["h3"]]
    assert made == [*others, ["g1"], ["g1"], ["g2"], ["g3"]]
    assert queue.reported == []


def test_after_a_conflict_without_end_the_rest_of_its_message_group_comes_again(
    queue: Queue,
) -> None:
    made = queue.run(*THREE_AND_THREE, fault=naming({"g2": "TransactionConflict"}, times=99))
    assert queue.reported == ["g2", "g3"]
    assert amounts(queue.aws) == dict.fromkeys(("g1", "h1", "h2", "h3"), 1)
    assert ["g3"] not in made
    assert "g3" not in queue.handled


def test_after_a_failure_in_a_group_the_rest_of_its_message_group_fails(queue: Queue) -> None:
    batch = woven(of("g", "g1", "fail g2", "g3"), of("h", "h1", "h2", "h3"))
    assert queue.run(*batch) == [["g1", "h1"], ["h2"], ["h3"]]
    assert queue.reported == ["fail g2", "g3"]


def test_after_a_quarantine_the_rest_of_its_message_group_goes_on(queue: Queue) -> None:
    invalid = naming({"g1": "ValidationError"})
    made = queue.run(*THREE_AND_THREE, fault=invalid)
    assert made == [["g1", "h1"], ["h1", "g2"], ["h2", "g3"], ["h3"]]
    assert reasons(queue.aws) == ["invalid-write"]
    assert queue.reported == []


def test_a_refusal_commits_before_the_next_of_its_message_group(queue: Queue) -> None:
    batch = woven(of("g", "refuse g1", "g2"), of("h", "h1", "h2"))
    assert queue.run(*batch) == [["refuse g1", "h1"], ["g2", "h2"]]
    assert queue.handled == ["refuse g1", "h1", "g2", "h2"]


def test_ten_message_groups_are_one_request(queue: Queue) -> None:
    names = [f"n{i}" for i in range(10)]
    assert queue.run(*(m for name in names for m in of(name, name))) == [names]


def test_a_key_that_comes_twice_does_not_hold_its_neighbours_back(queue: Queue) -> None:
    twice = [message("a"), message("b"), message("a", message_id="again"), message("c")]
    assert queue.run(*twice) == [["a", "b", "c"]]
    assert queue.reported == []
    assert amounts(queue.aws) == dict.fromkeys("abc", 1)


def test_a_key_that_comes_twice_with_other_content_is_a_conflict(queue: Queue) -> None:
    twice = [message("a"), message("a", amount=5, message_id="other"), message("b")]
    assert queue.run(*twice) == [["a", "b"]]
    assert reasons(queue.aws) == ["key-conflict"]
    assert amounts(queue.aws) == {"a": 1, "b": 1}


def test_while_the_first_of_a_key_goes_again_the_second_waits_for_it(queue: Queue) -> None:
    twice = [message("a"), message("b"), message("a", message_id="again")]
    made = queue.run(*twice, fault=naming({"a": "TransactionConflict"}, times=2))
    assert made == [["a", "b"], ["b"], ["a"], ["a"]]
    assert queue.handled == ["a", "b"]
    assert amounts(queue.aws) == {"a": 1, "b": 1}


def test_where_the_first_of_a_key_cannot_commit_the_second_tries_in_a_group(queue: Queue) -> None:
    batch = [message("a", "e"), message("b"), message("c", "e", message_id="again"), message("d")]
    made = queue.run(*batch, fault=naming({"e": "ValidationError"}))
    assert made == [["e", "b", "d"], ["b", "e", "d"]]
    assert reasons(queue.aws) == ["invalid-write"]
    assert amounts(queue.aws) == dict.fromkeys("bcd", 1)


def test_a_refusal_decides_for_the_second_of_its_key(queue: Queue) -> None:
    twice = [message("refuse a"), message("b"), message("refuse a", message_id="again")]
    assert queue.run(*twice) == [["refuse a", "b"]]
    assert queue.handled == ["refuse a", "b"]


def test_suspects_go_last_and_one_by_one(queue: Queue) -> None:
    ordinary = [message("a"), message("b", receive_count=2)]
    made = queue.run(*batch_of("s1", "s2", **THIRD), *ordinary, message("s3", **THIRD))
    assert made == [["a", "b"], ["s1"], ["s2"], ["s3"]]
    assert queue.handled == ["a", "b", "s1", "s2", "s3"]


def test_a_message_that_kills_the_function_leaves_its_neighbours_committed(queue: Queue) -> None:
    queue.run(*batch_of("a", "b"), message("kill", **THIRD), *batch_of("c", "d", receive_count=2))
    assert queue.reported is None
    assert amounts(queue.aws) == dict.fromkeys("abcd", 1)


def test_before_a_message_that_kills_neighbours_have_all_their_attempts(queue: Queue) -> None:
    conflict = naming({"a": "TransactionConflict"}, times=4)
    queue.run(message("kill", **THIRD), *batch_of("a", "b"), fault=conflict)
    assert queue.reported is None
    assert amounts(queue.aws) == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    ("receive_count", "committed"), [(3, "ab"), (4, "cd")], ids=["front", "back"]
)
def test_suspects_are_before_a_message_that_kills_once_each(
    queue: Queue, receive_count: int, committed: str
) -> None:
    queue.run(*batch_of("a", "b", "kill", "c", "d", receive_count=receive_count))
    assert queue.reported is None
    assert amounts(queue.aws) == dict.fromkeys(committed, 1)


def test_who_has_the_last_chance_goes_first_and_alone(queue: Queue) -> None:
    last = [message(name, receive_count=5) for name in ("l1", "l2")]
    assert queue.run(*batch_of("a", "b"), *last, message("s", **THIRD)) == [
        ["l1"],
        ["l2"],
        ["a", "b"],
        ["s"],
    ]


def test_a_suspect_keeps_the_order_of_its_message_group(queue: Queue) -> None:
    batch = [*batch_of("g1", group="g", **THIRD), *of("g", "g2"), *of("h", "h1", "h2")]
    assert queue.run(*batch) == [["h1"], ["h2"], ["g1"], ["g2"]]


def test_a_suspect_behind_a_known_message_of_its_group_goes_last_as_well(queue: Queue) -> None:
    queue.run(*of("g", "known"))
    third = batch_of("known", "kill", group="g", **THIRD)
    queue.run(*third, *of("h", "h1", "h2", "h3"))
    assert queue.reported is None
    assert amounts(queue.aws) == dict.fromkeys(("known", "h1", "h2", "h3"), 1)


def test_a_suspect_that_is_known_is_acknowledged_by_the_look(queue: Queue) -> None:
    queue.run(*batch_of("a"))
    assert queue.run(message("a", **THIRD), message("b", **THIRD)) == [["b"]]
    assert queue.reported == []
