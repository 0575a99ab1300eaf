"""A queue of a hundred messages, of which eight end the function whenever they run."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import ANY

import pytest

from tests.once.batch.batches import message
from tests.once.batch.function import Function, Make, isolated_again
from tests.once.support import facts

FATAL = [f"kill {number}" for number in range(8)]
HEALTHY = [f"healthy {number}" for number in range(92)]
RUNS = 5
"""Receives in which a message may run; SQS dead-letters it after one more."""


class Queue:
    """A standard queue: delivers its messages in any order, in batches of one size.

    Attributes:
        messages: the messages by id, as Lambda hands them to the function.
        unexplained: the messages that SQS dead-lettered after their last receive.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._receives: Counter[str] = Counter()
        self.messages: dict[str, dict[str, Any]] = {}
        self.unexplained: list[str] = []

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Deliver each message once."""
        ids = random.sample([*self.messages], len(self.messages))
        self._receives.update(ids)
        for start in range(0, len(ids), self._size):
            yield [self._delivery(message_id) for message_id in ids[start : start + self._size]]

    def _delivery(self, message_id: str) -> dict[str, Any]:
        count, found = self._receives[message_id], self.messages[message_id]
        if count > RUNS + 1:
            self.unexplained.append(self.messages.pop(message_id)["body"])
        return found | {"attributes": found["attributes"] | {"ApproximateReceiveCount": str(count)}}


def work_off(function: Function, queue: Queue, isolation: Queue) -> None:
    """Deliver the messages of both queues until they are empty."""
    while queue.messages or isolation.messages:
        for source in (queue, isolation):
            for batch in source.batches():
                run = function.run(*batch, reports=ANY)
                ids = [one["messageId"] for one in batch]
                answered = [] if run.reported is None else {*ids} - {*run.reported}
                for message_id in (*run.deleted, *answered):
                    source.messages.pop(message_id, None)
            for sent in function.isolated():
                isolation.messages[sent["MessageId"]] = isolated_again(sent)


@pytest.mark.parametrize("seed", range(3))
def test_only_messages_that_end_the_function_are_dead_lettered(make: Make, seed: int) -> None:
    random.seed(seed)
    function = make(isolation=True, max_receive_count=RUNS)
    queue, isolation = Queue(10), Queue(1)
    queue.messages = {name: message(name) for name in FATAL + HEALTHY}
    work_off(function, queue, isolation)
    assert function.amounts == dict.fromkeys(HEALTHY, 1)
    assert queue.unexplained == isolation.unexplained == []
    letters = function.aws.dead_letters()
    reasons = {json.loads(letter["Body"])["id"]: facts(letter)["reason"] for letter in letters}
    assert reasons == dict.fromkeys(FATAL, "unfinished")
    assert len(letters) == len(FATAL)
