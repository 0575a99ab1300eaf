"""Queue walk: receives the letters of dead-letter queues, and makes them visible again."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.aws.batch_calls import BATCH_ENTRIES, batches
from once.ops.dead_letters.letter import DeadLetterQueue, Letter

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

HOLD_SECONDS = 15 * 60
"""Visibility timeout of a received letter: how long it stays hidden if not made visible again."""
WAIT_SECONDS = 1
"""Long polling: without a wait, SQS may return no message although the queue holds some."""


class QueueWalk:
    """Context manager that receives letters and hides them until it ends.

    At its end, also by an error, all letters that were not deleted become visible again. If that
    call fails, they become visible after `HOLD_SECONDS`. Of a FIFO queue, SQS returns at most ten
    letters of a message group at a time.

    Args:
        sqs: an SQS client.
        queues: the dead-letter queues.
        limit: most letters that are received.
    """

    def __init__(self, sqs: "SQSClient", queues: Iterable[DeadLetterQueue], limit: int) -> None:
        self._sqs = sqs
        self._queues = queues
        self._left = limit
        self._held: dict[str, Letter] = {}
        self._seen: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for batch in batches_by_queue([*self._held.values()]):
            with suppress(BotoCoreError, ClientError):
                self._give_back(batch)

    @property
    def looked_at(self) -> int:
        """Number of letters received so far."""
        return len(self._seen)

    @property
    def hidden(self) -> int:
        """Number of letters that are neither deleted nor visible again."""
        return len(self._held)

    def pages(self) -> Iterator[list[Letter]]:
        """Yield the letters, each once, at most ten at a time, all of one queue.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: a queue cannot be read.
        """
        for queue in self._queues:
            while self._left and (found := self._receive(queue)):
                page = [letter for letter in found if letter.message_id not in self._seen]
                self._held |= {letter.message_id: letter for letter in found}
                self._seen |= self._held.keys()
                self._left -= len(page)
                yield page

    def hold(self, letter: Letter, seconds: int) -> None:
        """Keep a letter hidden for so many seconds from now on.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: the letter is not hidden any more.
        """
        self._sqs.change_message_visibility(
            QueueUrl=letter.queue.url,
            ReceiptHandle=letter.receipt_handle,
            VisibilityTimeout=seconds,
        )

    def forget(self, letters: Iterable[Letter]) -> None:
        """Note that letters were deleted, or are visible again."""
        for letter in letters:
            self._held.pop(letter.message_id, None)

    def _receive(self, queue: DeadLetterQueue) -> list[Letter]:
        answer = self._sqs.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=min(BATCH_ENTRIES, self._left),
            VisibilityTimeout=HOLD_SECONDS,
            WaitTimeSeconds=WAIT_SECONDS,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return [Letter.read(queue, message) for message in answer.get("Messages", [])]

    def _give_back(self, letters: Sequence[Letter]) -> None:
        answer = self._sqs.change_message_visibility_batch(
            QueueUrl=letters[0].queue.url,
            Entries=[
                {"Id": str(number), "ReceiptHandle": letter.receipt_handle, "VisibilityTimeout": 0}
                for number, letter in enumerate(letters)
            ],
        )
        self.forget(letters[int(entry["Id"])] for entry in answer.get("Successful", []))


def batches_by_queue(letters: Sequence[Letter]) -> Iterator[Sequence[Letter]]:
    """Yield batches of at most ten letters, each batch of one queue."""
    for queue in dict.fromkeys(letter.queue for letter in letters):
        yield from batches([letter for letter in letters if letter.queue == queue])
