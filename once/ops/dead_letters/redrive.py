"""Redrive: sends dead letters back to their queues, and deletes them afterwards.

An interruption between the two leaves a letter that is sent again by the next redrive. Its consumer
recognises the duplicate.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from once.ops.aws.batch_calls import BATCH_ENTRIES, BatchCall, batches_by_size, call_for_each
from once.ops.dead_letters._unrouted_events import IngressPublication, publish_unrouted
from once.ops.dead_letters.group_order import WAITS, Group, GroupOrder, group_of
from once.ops.dead_letters.letter import DeadLetterQueue, Letter
from once.ops.dead_letters.redriven_message import RedrivenMessage, redriven_message
from once.ops.errors import unexpected_error_text
from once.schema import Limits

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_Outgoing = tuple[Letter, RedrivenMessage | IngressPublication]


@dataclass(slots=True)
class RedriveResult:
    """Result of a redrive.

    Attributes:
        sent: message ids that the sent letters have in their queue now.
        in_groups: letters of FIFO message groups that were sent.
        failed: a text for each failure.
        unanswered: ids of letters in a send that has not been answered: perhaps sent.
        undeleted: ids of letters that were sent, and whose deletion has not been answered.
    """

    sent: set[str] = field(default_factory=set)
    in_groups: list[Letter] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    undeleted: list[str] = field(default_factory=list)


class RateLimiter:
    """Limits the rate of messages.

    Args:
        rate: messages a second.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    @property
    def max_per_call(self) -> int:
        """Most messages in one call."""
        return max(1, min(BATCH_ENTRIES, int(self._rate)))

    def wait(self, count: int) -> None:
        """Wait until this number of messages may be sent."""
        now = time.monotonic()
        if now < self._free_at:
            time.sleep(self._free_at - now)
        self._free_at = max(now, self._free_at) + count / self._rate


class Redriver:
    """Sends letters back, and deletes them.

    Args:
        sqs: an SQS client.
        limiter: limits the rate.
        deleted: called with the letters that were deleted.
    """

    def __init__(
        self, sqs: "SQSClient", limiter: RateLimiter, deleted: Callable[[Iterable[Letter]], object]
    ) -> None:
        self._sqs = sqs
        self._limiter = limiter
        self._deleted = deleted
        self._order = GroupOrder()
        self._made = GroupOrder()
        self.result = RedriveResult()

    def send(self, letters: Sequence[Letter], *, edited: bool = False) -> None:
        """Send back letters of one dead-letter queue, and delete those that were sent.

        After a letter of a FIFO message group that is not sent, the later ones stay as well.

        Args:
            letters: the letters.
            edited: whether their bodies were changed.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
        """
        now = datetime.now(UTC)
        for some in self._calls(list(self._messages(letters, now, edited=edited))):
            if not (some := self._order.may_go(some, _group, lambda pair: self.keep(pair[0]))):
                continue
            self._limiter.wait(len(some))
            self.result.unanswered = [letter.message_id for letter, _ in some]
            sent = self._sent(some)
            self.result.undeleted = [letter.message_id for letter in sent]
            self.result.unanswered = []
            self._delete(sent)
            self.result.undeleted = []

    def came_back(self, letter: Letter) -> bool:
        """Tell whether a letter was sent by this redrive and has been dead-lettered again."""
        return any(stay.message_id in self.result.sent for stay in letter.lineage)

    def _messages(
        self, letters: Sequence[Letter], now: datetime, *, edited: bool
    ) -> Iterator[_Outgoing]:
        for letter in letters:
            try:
                pair = letter, _message(letter, now, edited=edited)
            except Exception as error:  # one letter must not stop the redrive
                self._made.stop(group_of(letter))
                self.result.failed.append(
                    f"{letter.message_id}: not sent: {unexpected_error_text(error)}"
                )
            else:
                yield from self._made.may_go([pair], _group, lambda pair: self.keep(pair[0]))

    def keep(self, letter: Letter) -> None:
        """Note that a letter stays, since an earlier one of its message group was not sent."""
        self.result.failed.append(f"{letter.message_id}: {WAITS}")

    def _calls(self, pairs: Sequence[_Outgoing]) -> Iterator[list[_Outgoing]]:
        """Yield the letters of each call; to a FIFO queue, one letter a call keeps their order."""
        if not pairs:
            return iter(())
        queue = pairs[0][0].queue
        return batches_by_size(
            pairs,
            lambda pair: pair[1].size,
            most=1 if queue.is_fifo else self._limiter.max_per_call,
            most_bytes=Limits.TOPIC_MESSAGE_BYTES if queue.ingress else Limits.MESSAGE_BYTES,
        )

    def _sent(self, pairs: Sequence[_Outgoing]) -> list[Letter]:
        """Send, and return the letters that SQS or SNS accepted."""
        call = self._call(pairs[0][0].queue)
        try:
            taken, refused = call_for_each(call, (message.entry() for _, message in pairs))
        except ClientError as error:
            if "BatchRequestTooLong" not in error.response["Error"]["Code"]:
                raise
            # Batches are kept below the limit, so a single message exceeds it.
            taken, refused = {}, dict.fromkeys(range(len(pairs)), str(error))
        self.result.sent |= {answer["MessageId"] for answer in taken.values()}
        for number, said in refused.items():
            self._order.stop(_group(pairs[number]))
            self.result.failed.append(f"{pairs[number][0].message_id}: not sent: {said}")
        sent = [pairs[number][0] for number in taken]
        self.result.in_groups += filter(group_of, sent)
        return sent

    def _call(self, queue: DeadLetterQueue) -> BatchCall:
        if queue.ingress is not None:
            return publish_unrouted
        url = str(queue.source_url)
        return lambda entries: self._sqs.send_message_batch(QueueUrl=url, Entries=entries)

    def _delete(self, letters: Sequence[Letter]) -> None:
        if not letters:
            return
        refused = delete_letters(self._sqs, letters)
        self._deleted(letter for letter in letters if letter.message_id not in refused)
        self.result.failed += [
            f"{name}: sent, but not deleted: {said}; sent again, it will be a duplicate"
            for name, said in refused.items()
        ]


def _group(pair: _Outgoing) -> Group | None:
    return group_of(pair[0])


def _message(
    letter: Letter, now: datetime, *, edited: bool
) -> RedrivenMessage | IngressPublication:
    if letter.queue.ingress is not None:
        return IngressPublication.of(letter, letter.queue.ingress)
    return redriven_message(letter, now, edited=edited)


def delete_letters(sqs: "SQSClient", letters: Sequence[Letter]) -> dict[str, str]:
    """Delete up to ten letters of one queue.

    Returns:
        The failure texts of letters that were not deleted, by message id.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
    """
    _, refused = call_for_each(
        lambda entries: sqs.delete_message_batch(QueueUrl=letters[0].queue.url, Entries=entries),
        ({"ReceiptHandle": letter.receipt_handle} for letter in letters),
    )
    return {letters[number].message_id: said for number, said in refused.items()}
