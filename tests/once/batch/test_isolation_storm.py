"""A queue of a hundred messages, of which eight end the function whenever they run."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from once.consumer import Consumer
from once.handlers.transaction import Transaction
from once.testing import FakeAws
from tests.in_memory import Start
from tests.once.effects.provider import Killed
from tests.once.support import (
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    facts,
    invoke,
    note,
    record,
    redriven,
)

FATAL = [f"fatal-{number}" for number in range(8)]
HEALTHY = [f"healthy-{number}" for number in range(92)]
RUNS = 5
"""Receives in which a message may run; SQS itself dead-letters after one more."""
URL = "https://sqs.us-east-1.amazonaws.com/123456789012/isolation"

Message = dict[str, Any]


def handle(event: Note, tx: Transaction) -> None:
    if event.name in FATAL:
        raise Killed
    count(event, tx)


class Queue:
    """A standard queue: gives its messages out in any order, in batches of one size.

    Attributes:
        unexplained: what SQS itself dead-lettered, after its last receive.
    """

    def __init__(self, name: str, batch: int) -> None:
        self._arn = f"arn:aws:sqs:us-east-1:123456789012:{name}"
        self._batch = batch
        self._receives: Counter[str] = Counter()
        self.messages: dict[str, Message] = {}
        self.unexplained: list[str] = []

    def batches(self) -> Iterator[list[Message]]:
        """Yield each message once, as Lambda hands them out."""
        ids = [*self.messages]
        random.shuffle(ids)
        for start in range(0, len(ids), self._batch):
            found = [self._received(one) for one in ids[start : start + self._batch]]
            yield [message for message in found if message is not None]

    def _received(self, message_id: str) -> Message | None:
        message = self.messages[message_id]
        self._receives[message_id] += 1
        if self._receives[message_id] > RUNS + 1:
            self.unexplained.append(json.loads(message.pop("body"))["data"]["name"])
            del self.messages[message_id]
            return None
        return record(
            message["body"],
            message_id,
            receive_count=self._receives[message_id],
            messageAttributes=message["attributes"],
            eventSourceARN=self._arn,
        )

    def delete(self, message_ids: Sequence[str]) -> None:
        for message_id in message_ids:
            self.messages.pop(message_id, None)


class Line:
    """The function between its two queues, until both are empty."""

    def __init__(self, aws: FakeAws, consumer: Consumer) -> None:
        self.aws, self.consumer = aws, consumer
        self.queues = {"queue": Queue("queue", 10), "isolation": Queue("isolation", 1)}

    def run(self) -> None:
        while any(queue.messages for queue in self.queues.values()):
            for queue in self.queues.values():
                for batch in queue.batches():
                    self._invoke(queue, batch)
                self._arrive()

    def _invoke(self, queue: Queue, batch: list[Message]) -> None:
        ids = [message["messageId"] for message in batch]
        with calls(self.aws.runtime.sqs) as made, suppress(Killed):
            failed = invoke(self.aws, self.consumer, *batch)
            queue.delete([one for one in ids if one not in failed])
        for _, request in (call for call in made if call[0] == "DeleteMessageBatch"):
            handles = [entry["ReceiptHandle"] for entry in request["Entries"]]
            queue.delete([one.removeprefix("handle-of-") for one in handles])

    def _arrive(self) -> None:
        """Take what was sent to the isolation queue of the AWS in memory into the one here."""
        wanted: Any = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        while found := self.aws.sqs.receive_message(QueueUrl=URL, **wanted).get("Messages"):
            for message in found:
                self.queues["isolation"].messages[message["MessageId"]] = {
                    "body": message["Body"],
                    "attributes": redriven(message),
                }

    @property
    def unexplained(self) -> list[str]:
        return [name for queue in self.queues.values() for name in queue.unexplained]


@pytest.mark.parametrize("seed", range(3))
def test_of_a_hundred_messages_the_eight_that_end_the_function_are_dead_lettered_alone(
    start: Start, seed: int
) -> None:
    random.seed(seed)
    consumer = consumer_of(handle)
    aws = start(consumer, isolation_queue_url=URL, max_receive_count=RUNS)
    aws.sqs.create_queue(QueueName="isolation")
    line = Line(aws, consumer)
    for name in FATAL + HEALTHY:
        body = json.dumps(note(name, event_id=name))
        line.queues["queue"].messages[name] = {"body": body, "attributes": {}}
    line.run()
    assert amounts(aws) == dict.fromkeys(HEALTHY, 1)
    assert line.unexplained == []
    letters = [(json.loads(one["Body"])["id"], facts(one)["reason"]) for one in aws.dead_letters()]
    assert sorted(letters) == [(name, "unfinished") for name in FATAL]
