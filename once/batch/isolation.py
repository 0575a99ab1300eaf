"""Isolation: a message that came often runs its handler alone, from a queue of its own.

A handler can end the process, or hang until Lambda ends it. SQS then delivers the whole batch
again: each message in it has spent a receive, even one that had committed. So the messages that
came often are settled at SQS before any handler runs: known duplicates are deleted, the others are
moved to the isolation queue. Its batches hold one message, and receives start anew there.

A message is sent first and deleted then. If the function ends in between there are two copies, and
the dedup record lets one of them commit.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.batch.message_state import Course
from once.deadline import Budget
from once.error_text import summary_of
from once.failures.quarantine import first_seen, lineage, text, whole
from once.intake.original_message import Original
from once.schema import DeadLetter, Limits
from once.settings import Settings

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_sqs import SQSClient

_NO_ANSWER = (ClientError, BotoCoreError, ResponseParserError)


class _Copy(NamedTuple):
    """A message as it is sent to the isolation queue."""

    course: Course
    body: str
    attributes: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Bytes, as SQS counts them."""
        return len(self.body.encode()) + sum(
            len(name.encode()) + len(value["DataType"]) + len(value["StringValue"].encode())
            for name, value in self.attributes.items()
        )


class Isolation:
    """Moves messages of one consumer to its isolation queue.

    Args:
        client: an SQS client.
        settings: the consumer's queues; without an isolation queue, no message is moved.
        logger: told of calls that failed.
    """

    def __init__(self, client: "SQSClient", settings: Settings, logger: "Logger") -> None:
        self._client = client
        self._url = settings.isolation_queue_url or ""
        self._source_url = settings.queue_url
        self._logger = logger

    def takes(self, course: Course, *, alone: bool) -> bool:
        """Tell whether a message may have to be settled before any handler runs.

        One whose deliveries are spent is, even if it is alone now: neighbours may have spent them.

        Args:
            course: the message.
            alone: whether it is the only one in its batch.
        """
        return (
            (course.spent or (course.came_often and not alone))
            and bool(self._url)
            and not course.isolated
            and course.is_readable
            and course.delivery.group is None  # a message group would lose its order
        )

    def move(self, courses: Sequence[Course], budget: Budget) -> list[Course]:
        """Send messages to the isolation queue, delete them from theirs, and return the moved.

        The others stay where they are: SQS refused them, did not answer, or the time was up.
        """
        moved: list[Course] = []
        for copies in _calls(list(filter(None, map(_copy, courses)))):
            if budget.spent:
                break
            sent = self._sent(copies)
            self.acknowledge(sent, budget)
            moved += sent
        return moved

    def acknowledge(self, courses: Sequence[Course], budget: Budget) -> None:
        """Delete settled messages now. The answer, which does so too, may never be given."""
        for start in range(0, len(courses), Limits.QUEUE_BATCH):
            if not budget.spent:
                self._delete(courses[start : start + Limits.QUEUE_BATCH])

    def _sent(self, copies: Sequence[_Copy]) -> list[Course]:
        entries: Any = [
            {"Id": str(number), "MessageBody": copy.body, "MessageAttributes": copy.attributes}
            for number, copy in enumerate(copies)
        ]
        try:
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        except _NO_ANSWER as error:
            self._warn("not isolated", len(copies), summary_of(error))
            return []
        if refused := answer.get("Failed"):
            self._warn("not isolated", len(refused), refused[0]["Code"])
        return [copies[int(sent["Id"])].course for sent in answer.get("Successful", [])]

    def _delete(self, courses: Sequence[Course]) -> None:
        entries: Any = [
            {"Id": str(number), "ReceiptHandle": course.delivery.record.receipt_handle}
            for number, course in enumerate(courses)
        ]
        try:
            self._client.delete_message_batch(QueueUrl=self._source_url, Entries=entries)
        except _NO_ANSWER as error:
            self._warn("settled, and not deleted yet", len(courses), summary_of(error))

    def _warn(self, what: str, messages: int, error: str) -> None:
        self._logger.warning(what, extra={"messages": messages, "error": error})


def _copy(course: Course) -> _Copy | None:
    delivery = course.delivery
    facts = {
        DeadLetter.FIRST_SEEN: text(first_seen(delivery)),
        DeadLetter.LINEAGE: text(lineage(delivery)),
    }
    found = whole(Original.of(delivery.record), facts)
    return None if found is None else _Copy(course, *found)


def _calls(copies: Sequence[_Copy]) -> Iterator[list[_Copy]]:
    """Yield the copies that fit into one call."""
    some: list[_Copy] = []
    for copy in copies:
        size = copy.size + sum(other.size for other in some)
        if some and (len(some) == Limits.QUEUE_BATCH or size > Limits.MESSAGE_BYTES):
            yield some
            some = []
        some.append(copy)
    if some:
        yield some
