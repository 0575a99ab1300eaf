"""A deployment filled with any dead letters and any dedup records, and emptied again."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from moto.sqs.models import sqs_backends

from tests.ops.hostile import Forged
from tests.ops.letters import Shop
from tests.ops.support import REGION, add_to_answer


class Mess:
    """Fills a deployment with letters and records, and empties it again."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._moved: set[str] = set()
        self.relay = shop.cloud.outputs["once-service"]["RelayDeadLetters"]
        add_to_answer("sqs.ReceiveMessage", self._say_who_moved)

    @contextmanager
    def of(self, letters: Sequence[Forged], items: Sequence[Any] = ()) -> Iterator[list[str]]:
        """Put letters and records there for a while; yield the letters' message ids."""
        for item in items:
            self._shop.aws.dynamodb.put_item(TableName="dedup", Item=item)
        try:
            yield self.send(*letters)
        finally:
            self._shop.forget()
            for account in sqs_backends.values():
                for queue in account[REGION].queues.values():
                    queue._messages.clear()

    def send(self, *letters: Forged) -> list[str]:
        """Put letters there; return their message ids."""
        return [self._send(letter) for letter in letters]

    def left(self) -> int:
        """Return how many dead letters are there, each of them to be seen by the next command."""
        urls = (self._shop.box.url, self.relay)
        return sum(
            int(answer["Attributes"]["ApproximateNumberOfMessages"])
            for answer in (
                self._shop.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
                for url in urls
            )
        )

    def _send(self, letter: Forged) -> str:
        sent = self._shop.sqs.send_message(
            QueueUrl=self.relay if letter.relay else self._shop.box.url,
            MessageBody=letter.body,
            MessageAttributes=letter.attributes,
        )
        if letter.moved:
            self._moved.add(sent["MessageId"])
        return str(sent["MessageId"])

    def _say_who_moved(self, answer: Any) -> None:
        for message in answer.get("Messages", []):
            if message["MessageId"] in self._moved:
                message["Attributes"]["DeadLetterQueueSourceArn"] = "arn:aws:sqs:::queue"


def harmless_only(output: str) -> bool:
    """Tell whether a terminal takes nothing in a text for a command."""
    return all(c.isprintable() or c in "\n\t" for c in output)
