"""Queues with messages that end the function, whenever they are read or whenever they run."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import ANY

import pytest

from tests.once.batch.batches import message
from tests.once.batch.function import ISOLATION_ARN, Function, Make, isolated_again
from tests.once.support import facts

FATAL = [f"{how} {number}" for how in ("kill", "fatal") for number in range(4)]
HEALTHY = [f"healthy {number}" for number in range(92)]
NINE = HEALTHY[:9]
RUNS = 5
"""Receives in which a message may run; a standard queue dead-letters it after one more."""
ROUNDS = 3 * RUNS


class Queue:
    """A queue that delivers its messages in batches of one size, at least once.

    Attributes:
        messages: the messages by id, as Lambda hands them to the function.
        unexplained: the messages that SQS dead-lettered after their last receive.
    """

    def __init__(self, size: int, messages: Sequence[dict[str, Any]] = ()) -> None:
        self._size = size
        self._receives: Counter[str] = Counter()
        self.messages = {each["messageId"]: each for each in messages}
        self.unexplained: list[str] = []

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Deliver each message once."""
        ids = [*self.messages]
        if len(ids) > self._size:
            random.shuffle(ids)
        self._receives.update(ids)
        for start in range(0, len(ids), self._size):
            yield [self._delivery(message_id) for message_id in ids[start : start + self._size]]

    def _delivery(self, message_id: str) -> dict[str, Any]:
        count, found = self._receives[message_id], self.messages[message_id]
        if count > RUNS + 1 and "MessageGroupId" not in found["attributes"]:
            self.unexplained.append(self.messages.pop(message_id)["body"])
        return found | {"attributes": found["attributes"] | {"ApproximateReceiveCount": str(count)}}


def work_off(function: Function, queue: Queue, isolation: Queue) -> None:
    """Deliver the messages of both queues until they are empty."""
    for _ in range(ROUNDS):
        for source in (queue, isolation):
            for batch in source.batches():
                run = function.run(*batch, reports=ANY)
                ids = [one["messageId"] for one in batch]
                answered = [] if run.reported is None else {*ids} - {*run.reported}
                for message_id in (*run.deleted, *answered):
                    source.messages.pop(message_id, None)
            for sent in function.isolated() if function.isolation else ():
                isolation.messages[sent["MessageId"]] = isolated_again(sent)
    assert queue.messages == isolation.messages == {}


def assert_only_fatal_messages_are_dead_lettered(
    function: Function, queue: Queue, healthy: Sequence[str], fatal: Sequence[str]
) -> None:
    isolation = Queue(1)
    work_off(function, queue, isolation)
    assert function.amounts == dict.fromkeys(healthy, 1)
    assert queue.unexplained == isolation.unexplained == []
    letters = [(json.loads(one["Body"])["id"], facts(one)) for one in function.aws.dead_letters()]
    found = sorted((name, explained["reason"]) for name, explained in letters)
    assert found == sorted((name, "unfinished") for name in fatal)


@pytest.mark.parametrize("seed", range(3))
def test_only_messages_that_end_the_function_are_dead_lettered(make: Make, seed: int) -> None:
    random.seed(seed)
    function = make(isolation=True, max_receive_count=RUNS)
    queue = Queue(10, [message(name) for name in FATAL + HEALTHY])
    assert_only_fatal_messages_are_dead_lettered(function, queue, HEALTHY, FATAL)


WHERE: dict[str, tuple[bool, list[dict[str, Any]]]] = {
    "isolation": (True, [{}] * 10),
    "no isolation": (False, [{}] * 10),
    "isolation queue": (True, [{"eventSourceARN": ISOLATION_ARN}] * 10),
    "one FIFO group": (False, [{"group": "g"}] * 10),
    "two FIFO groups": (False, [{"group": group} for group in "ghghghghgh"]),
    "ten FIFO groups": (False, [{"group": group} for group in "abcdefghij"]),
}


@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize("fatal", ["kill", "fatal"], ids=["runs", "read"])
@pytest.mark.parametrize(("isolation", "more"), WHERE.values(), ids=WHERE)
def test_nine_healthy_messages_survive_one_that_ends_the_function(
    make: Make, fatal: str, place: int, more: list[dict[str, Any]], *, isolation: bool
) -> None:
    function = make(isolation=isolation, max_receive_count=RUNS)
    names = [*NINE[:place], fatal, *NINE[place:]]
    queue = Queue(10, [message(name, **one) for name, one in zip(names, more, strict=True)])
    assert_only_fatal_messages_are_dead_lettered(function, queue, NINE, [fatal])
