"""Queue walk: receives the letters of dead-letter queues, and makes them visible again."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Self

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.aws.batch_calls import BATCH_ENTRIES, batches
from once.ops.aws.clients import THREADS
from once.ops.dead_letters.letter import DeadLetterQueue, Letter

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

HOLD_SECONDS = 60
"""Visibility timeout of a received letter. If the command is killed, its letters are visible again
after this time; while it runs, `renewing` extends it."""
RENEW_BELOW_SECONDS = 40
"""A hold with less time left is renewed."""
RENEW_EVERY_SECONDS = 10.0
"""Ten thousand letters take a thousand calls, about 20 s: all of them fit before a hold ends."""
WAIT_SECONDS = 1
"""Long polling: without a wait, SQS may return no message although the queue holds some."""


@dataclass(frozen=True, slots=True)
class _Hold:
    """A received letter, and the time until which SQS hides it, in seconds since 1970."""

    letter: Letter
    until: float

    def lasts(self, now: float) -> bool:
        """Tell whether SQS still hides the letter, if nothing else made it visible."""
        return now < self.until


class QueueWalk:
    """Context manager that receives letters and hides them until it ends.

    At its end, also by an error, all letters that were not deleted become visible again. If that
    call fails, they become visible after `HOLD_SECONDS`.

    Of a FIFO queue, SQS withholds the later letters of a message group while earlier ones are held.
    A letter that a consumer dead-lettered is a group of its own. Letters that SQS moved share
    theirs: ten of them are received, and more when those are deleted.

    Args:
        sqs: an SQS client.
        queues: the dead-letter queues.
        limit: most letters that are received.

    Attributes:
        complete: whether every queue was read until SQS returned no more letters.
        cut_short: whether the limit ended the walk within a FIFO queue, so that earlier letters of
            a message group may not have been received.
    """

    def __init__(self, sqs: "SQSClient", queues: Iterable[DeadLetterQueue], limit: int) -> None:
        self._sqs = sqs
        self._queues = [*queues]
        self._left = limit
        self._held: dict[str, _Hold] = {}
        self._lock = Lock()  # a command's thread and `renewing` change the holds
        self._seen: set[str] = set()
        self.complete = False
        self.cut_short = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for batch in batches_by_queue(self.held):
            with suppress(BotoCoreError, ClientError):
                self.forget(self._change(batch, 0))

    @property
    def looked_at(self) -> int:
        """Number of letters received so far."""
        return len(self._seen)

    @property
    def hidden(self) -> int:
        """Number of letters that are neither deleted nor visible again."""
        return len(self._held)

    @property
    def lapsed(self) -> int:
        """Number of letters whose hold ended before it was renewed: others may receive them."""
        now = time.time()
        return sum(not hold.lasts(now) for hold in self._holds())

    @property
    def held(self) -> list[Letter]:
        """The letters that are neither deleted nor visible again."""
        return [hold.letter for hold in self._holds()]

    def pages(self) -> Iterator[Sequence[Letter]]:
        """Yield the letters, each once, at most ten at a time, all of one queue.

        Those of a FIFO queue are in the order of their places in its message groups.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: a queue cannot be read.
        """
        for queue, found in self._first_letters():
            if queue.is_fifo:
                yield from self._ordered_pages(queue, found)
                continue
            while found:
                yield self._new(found)
                found = self._receive(queue) if self._left else []
        self.complete = self._left > 0

    def _ordered_pages(
        self, queue: DeadLetterQueue, found: list[Letter]
    ) -> Iterator[Sequence[Letter]]:
        """Yield the letters of a FIFO queue in their order.

        SQS returns the groups in any order, and each letter of a consumer is one. When letters were
        deleted after they were yielded, SQS may return more of their groups.
        """
        while found:
            letters: list[Letter] = []
            while found:
                letters += self._new(found)
                found = self._receive(queue) if self._left else []
            self.cut_short |= not self._left
            held = self.hidden
            yield from batches(sorted(letters, key=lambda letter: letter.place))
            found = self._receive(queue) if self._left and self.hidden < held else []

    def _new(self, found: Iterable[Letter]) -> list[Letter]:
        """Return the letters that were not received before, and count them."""
        new = [letter for letter in found if letter.message_id not in self._seen]
        self._seen |= {letter.message_id for letter in new}
        self._left -= len(new)
        return new

    def _first_letters(self) -> Iterator[tuple[DeadLetterQueue, list[Letter]]]:
        """Yield the first letters of each queue.

        They are received in parallel: to find a queue empty takes `WAIT_SECONDS`.
        """
        if self._left < BATCH_ENTRIES * len(self._queues):
            for queue in self._queues:
                yield queue, self._receive(queue) if self._left else []
            return
        with ThreadPoolExecutor(THREADS) as pool:
            found = [*pool.map(self._receive, self._queues)]
        yield from zip(self._queues, found, strict=True)

    def forget(self, letters: Iterable[Letter]) -> None:
        """Note that letters were deleted, or are visible again."""
        with self._lock:
            for letter in letters:
                self._held.pop(letter.message_id, None)

    def renewals(self) -> Iterator[None]:
        """Renew the holds that end soon, a call at each step. A failed call leaves its letters.

        A hold that has ended is not renewed: another command may have received its letter.
        """
        now = time.time()
        soon = [
            hold.letter
            for hold in self._holds()
            if hold.lasts(now) and hold.until < now + RENEW_BELOW_SECONDS
        ]
        for batch in batches_by_queue(soon):
            with suppress(BotoCoreError, ClientError):
                self._renew(batch)
            yield

    def renew(self, letters: Sequence[Letter]) -> list[Letter]:
        """Renew the holds of up to ten letters of one queue; return those that were still held.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: the whole call failed.
        """
        now = time.time()
        held = {hold.letter.message_id for hold in self._holds() if hold.lasts(now)}
        kept = [letter for letter in letters if letter.message_id in held]
        return self._renew(kept) if kept else []

    def _renew(self, letters: Sequence[Letter]) -> list[Letter]:
        until = time.time() + HOLD_SECONDS
        renewed = self._change(letters, HOLD_SECONDS)
        self._note(renewed, until, new=False)
        return renewed

    def _receive(self, queue: DeadLetterQueue) -> list[Letter]:
        until = time.time() + HOLD_SECONDS
        answer = self._sqs.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=min(BATCH_ENTRIES, self._left),
            VisibilityTimeout=HOLD_SECONDS,
            WaitTimeSeconds=WAIT_SECONDS,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        letters = [Letter.read(queue, message) for message in answer.get("Messages", [])]
        self._note(letters, until, new=True)
        return letters

    def _change(self, letters: Sequence[Letter], seconds: int) -> list[Letter]:
        """Hide letters of one queue for so long from now; return those that SQS accepted."""
        answer = self._sqs.change_message_visibility_batch(
            QueueUrl=letters[0].queue.url,
            Entries=[
                {"Id": str(n), "ReceiptHandle": letter.receipt_handle, "VisibilityTimeout": seconds}
                for n, letter in enumerate(letters)
            ],
        )
        return [letters[int(entry["Id"])] for entry in answer.get("Successful", [])]

    def _note(self, letters: Iterable[Letter], until: float, *, new: bool) -> None:
        with self._lock:
            for letter in letters:
                # A letter may have been deleted while its renewal was under way.
                if new or letter.message_id in self._held:
                    self._held[letter.message_id] = _Hold(letter, until)

    def _holds(self) -> list[_Hold]:
        with self._lock:
            return [*self._held.values()]


@contextmanager
def renewing(walk: QueueWalk) -> Iterator[None]:
    """Renew a walk's holds in the background, also while the command waits for its operator."""
    stop = Event()

    def renew() -> None:
        while not stop.wait(RENEW_EVERY_SECONDS):
            for _ in walk.renewals():
                if stop.is_set():
                    return

    thread = Thread(target=renew, name="renewing", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()  # a renewal after the walk has ended would hide its letters again


def batches_by_queue(letters: Sequence[Letter]) -> Iterator[Sequence[Letter]]:
    """Yield batches of at most ten letters, each batch of one queue."""
    for queue in dict.fromkeys(letter.queue for letter in letters):
        yield from batches([letter for letter in letters if letter.queue == queue])
