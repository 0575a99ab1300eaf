"""Walk of dead-letter queues: receives messages, selects them by id or filter, counts hidden ones.

A walk receives messages, which hides them, and makes them visible again at its end.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer
from botocore.exceptions import BotoCoreError, ClientError
from typer import Argument, BadParameter, Option

from once.events.cloud_event import CloudEvent
from once.names import Reason
from once.ops.aws import clients
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.assessment import AssessedMessage
from once.ops.dead_letters.dead_letter import DIED, DeadLetter, DeadLetterQueue, dead_letter_queues
from once.ops.errors import ExitCode, NotFoundError, OpsError
from once.ops.terminal import (
    ServiceOption,
    counted,
    parse_time_option,
    since_option,
    single_line,
    until_option,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

HOLD_SECONDS = 60
"""Visibility timeout of a received message. If the command is killed, its messages are visible
again after this time; while it runs, `renewing` extends it."""
RENEW_BELOW_SECONDS = 40
"""A hold with less time left is renewed."""
RENEW_EVERY_SECONDS = 10.0
"""Ten thousand messages take a thousand calls, about 20 s: all of them fit before a hold ends."""
WAIT_SECONDS = 1
"""Long polling: without a wait, SQS may return no message although the queue holds some."""

DEFAULT_LIMIT = 10_000
"""Dead letters that a command reads unless it is told otherwise; they take about 20 seconds."""

_REASONS = (*Reason, DIED)
_WHOLE_ID = 36
SHOWN_ID = 8
"""Characters of an id that a list shows: enough to name its message."""
_MAX_IDS_SHOWN = 5

MAX_CHARACTERS = 160
UNREADABLE = "unreadable"
"""Name for the source of an event that has none."""
_SOURCE, _MAX_HEAD = re.compile(r'"source"\s*:\s*"([^"\\]{1,200})"'), 2_000
NO_ERROR = "no error recorded"
"""Pattern of a message without an error text."""

_VARIABLE = re.compile(r"[\w-]*\d[\w-]*(?:[.,:]\d[\w-]*)*")
"""A word with a digit: an id, a number, a time, an address in memory."""


def error_pattern(error: str | None, most: int = MAX_CHARACTERS) -> str:
    """Return the error's class and message with `…` in place of ids and numbers.

    Messages of one failure have the same pattern. It is one line of printable characters.
    """
    first, _, _ = ((error or "").strip() or NO_ERROR).partition("\n")
    shown = _VARIABLE.sub("…", single_line(first[: 3 * most]))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def producer_of(read: AssessedMessage) -> str | None:
    """Return the source of a message's event, also of one that no consumer can read."""
    if isinstance(read.event, CloudEvent):
        return read.event.source
    found = _SOURCE.search(read.message.original.body[:_MAX_HEAD])
    return found and single_line(found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Selects dead letters that match every condition that is not None.

    Attributes:
        reason: reason code, or `died` for messages without one.
        error: the pattern of the error: see `error_pattern`.
        key: the event's id, or a part of a dedup key.
        source: the event's source, see `producer_of`; `UNREADABLE` for those without one.
    """

    reason: str | None = None
    error: str | None = None
    key: str | None = None
    source: str | None = None
    before: datetime | None = None
    since: datetime | None = None

    def matches(self, message: DeadLetter) -> bool:
        pattern = error_pattern(message.error)
        if not self.matches_failure(message.reason, pattern, message.sent_at):
            return False
        if self.key is None and self.source is None:
            return True
        read = AssessedMessage.of(message)
        event = read.event
        event_id = event.id if isinstance(event, CloudEvent) else None
        return self.matches_event(read.pk, event_id, producer_of(read))

    def matches_failure(self, reason: str | None, pattern: str, sent_at: datetime) -> bool:
        return (
            self.reason in (None, reason or DIED)
            and self.error in (None, pattern)
            and (self.before is None or sent_at < self.before)
            and (self.since is None or sent_at >= self.since)
        )

    def matches_event(self, key: str | None, event: str | None, source: str | None) -> bool:
        is_named = self.key is None or self.key in (key or "") or self.key == event
        return is_named and self.source in (None, source or UNREADABLE)


ConsumerOption = Annotated[
    str | None, Option("--consumer", help="Only dead letters of this consumer.")
]
MessageIdsArgument = Annotated[
    list[str] | None,
    Argument(
        metavar="MESSAGE_ID", help="Only these dead letters; the beginning of an id is enough."
    ),
]
LimitOption = Annotated[int, Option(min=1, help="Maximum number of dead letters to read.")]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options that `list`, `redrive` and `purge` have in common."""

    consumer: ConsumerOption = None
    reason: Annotated[
        str | None,
        Option(help=f"Only dead letters with this reason; `{DIED}` selects those without one."),
    ] = None
    error: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Only dead letters with this error; words with a digit are not compared.",
        ),
    ] = None
    key: Annotated[
        str | None, Option(help="Only this event's: its id, or a part of its dedup key.")
    ] = None
    source: Annotated[
        str | None,
        Option(
            help="Only events of this producer, by their CloudEvents source; "
            f"`{UNREADABLE}` selects bodies without one."
        ),
    ] = None
    since: Annotated[str | None, since_option("dead letters")] = None
    until: Annotated[str | None, until_option("dead letters")] = None
    limit: LimitOption = DEFAULT_LIMIT
    service: ServiceOption = "once"

    def for_log(self) -> dict[str, Any]:
        """Return the options for the operator log; what a message has, by its SHA-256."""
        own = {one.name: getattr(self, one.name) for one in fields(SearchOptions)}
        return own | {name: _digest(own[name]) for name in ("key", "error", "source")}

    def search(self, deployment: Deployment) -> AbstractContextManager["QueueWalk"]:
        """Open a walk of the queues of the consumer, or of all; see `open_search`."""
        return open_search(dead_letter_queues(deployment, self.consumer), self.limit)

    def message_filter(self, ids: Sequence[str] = ()) -> MessageFilter:
        """Parse the options that select messages, which message ids exclude."""
        if self.reason is not None and self.reason not in _REASONS:
            raise BadParameter(
                f"{self.reason!r} is none: give one of {', '.join(_REASONS)}", param_hint="--reason"
            )
        found = MessageFilter(
            reason=self.reason,
            error=None if self.error is None else error_pattern(self.error),
            key=self.key,
            source=self.source,
            since=_time(self.since, "--since"),
            before=_time(self.until, "--until"),
        )
        if found.since and found.before and found.before <= found.since:
            raise BadParameter("the period is empty: --until is not after --since")
        if ids and found != MessageFilter():
            raise BadParameter(
                "dead letters are named or filtered: leave the filters or the ids out"
            )
        return found


def _time(text: str | None, option: str) -> datetime | None:
    return parse_time_option(text, now=datetime.now(UTC), option=option) if text else None


def _digest(text: str | None) -> str | None:
    return None if text is None else f"SHA-256 {sha256(text.encode()).hexdigest()}"


class _Hold(NamedTuple):
    message: DeadLetter
    until: float
    """Time until which SQS hides the message, in seconds since 1970."""


class QueueWalk:
    """Context manager that receives messages and hides them until it ends.

    At its end, also by an error, all messages that were not deleted become visible again. If that
    call fails, they become visible after `HOLD_SECONDS`. At most `limit` messages are received.

    SQS withholds the later messages of a FIFO message group while earlier ones are held.
    A message that a consumer dead-lettered is a group of its own. Messages that SQS moved share
    theirs: ten of them are received, and more when those are deleted.

    Attributes:
        complete: whether every queue was read until SQS returned no more messages.
        repeated: whether it ended because SQS returned a whole round of messages that it had seen:
            their holds had lapsed, as on a slow machine.
        cut_short: whether the limit ended the walk within a FIFO queue, so that earlier messages of
            a message group may not have been received.
        about: depth of the queues before the walk; approximate on AWS. Known in `open_search`.
        hidden: messages that the walk did not receive; None if there are none. Set by
            `count_hidden`.
    """

    def __init__(self, sqs: "SQSClient", queues: Iterable[DeadLetterQueue], limit: int) -> None:
        self._sqs = sqs
        self._queues = [*queues]
        self._left = limit
        self._held: dict[str, _Hold] = {}
        self._lock = Lock()  # a command's thread and `renewing` change the holds
        self._seen: set[str] = set()
        self._empty: list[DeadLetterQueue] = []
        self.complete = False
        self.repeated = False
        self.cut_short = False
        self.about = clients.QueueDepth(0, 0, 0)
        self.hidden: HiddenMessages | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for batch in batches_by_queue(self.held):
            with suppress(BotoCoreError, ClientError):
                self._change(batch, 0)

    @property
    def looked_at(self) -> int:
        return len(self._seen)

    @property
    def lapsed(self) -> int:
        """Number of messages whose hold ended before it was renewed: others may receive them."""
        now = time.time()
        return sum(hold.until <= now for hold in self._holds())

    @property
    def held(self) -> list[DeadLetter]:
        """The messages that are neither deleted nor visible again."""
        return [hold.message for hold in self._holds()]

    def pages(self) -> Iterator[Sequence[DeadLetter]]:
        """Yield the messages, each once, at most ten at a time, all of one queue.

        Those of a FIFO queue are in the order of their places in its message groups.
        """
        for queue, found in self._first_messages():
            if queue.is_fifo:
                yield from self._ordered_pages(queue, found)
                continue
            yield from self._new_messages(queue, found)
        self.complete = self._left > 0 and not self.repeated

    def _ordered_pages(
        self, queue: DeadLetterQueue, found: list[DeadLetter]
    ) -> Iterator[Sequence[DeadLetter]]:
        # SQS returns the groups in any order, and each message of a consumer is one.
        while found:
            messages = [one for page in self._new_messages(queue, found) for one in page]
            self.cut_short |= self.repeated or not self._left
            held = len(self._held)
            yield from clients.batches(sorted(messages, key=lambda message: message.place))
            # When messages were deleted meanwhile, SQS may return more of their groups.
            found = self._receive(queue) if self._left and len(self._held) < held else []

    def _new_messages(
        self, queue: DeadLetterQueue, found: Sequence[DeadLetter]
    ) -> Iterator[Sequence[DeadLetter]]:
        """Yield received messages of a queue, and the next ones, without those seen before."""
        again = 0
        while found:
            new = [message for message in found if message.message_id not in self._seen]
            self._seen |= {message.message_id for message in new}
            self._left = max(0, self._left - len(new))
            again = 0 if new else again + len(found)
            if again > len(self._seen):
                self.repeated = True
                return
            yield new
            found = self._receive(queue) if self._left else []

    def _first_messages(self) -> Iterator[tuple[DeadLetterQueue, list[DeadLetter]]]:
        if self._left < clients.BATCH_ENTRIES * len(self._queues):
            for queue in self._queues:
                yield queue, self._receive(queue) if self._left else []
            return
        # To find a queue empty takes `WAIT_SECONDS`. A search for ids may end before that.
        for queues in ([one for one in self._queues if one not in self._empty], self._empty):
            with ThreadPoolExecutor(clients.THREADS) as pool:
                found = [*pool.map(self._receive, queues)]
            yield from zip(queues, found, strict=True)

    def delete(self, messages: Sequence[DeadLetter]) -> dict[str, str]:
        """Delete up to ten messages of one queue; return why some were not, by message id."""
        url = messages[0].queue.url
        _, refused = clients.call_for_each(
            lambda entries: self._sqs.delete_message_batch(QueueUrl=url, Entries=entries),
            ({"ReceiptHandle": message.receipt_handle} for message in messages),
        )
        with self._lock:
            for number, message in enumerate(messages):
                if number not in refused:
                    self._held.pop(message.message_id, None)
        return {messages[number].message_id: said for number, said in refused.items()}

    def renewals(self) -> Iterator[None]:
        """Renew the holds that end soon, a call at each step. A failed call leaves its messages.

        A hold that has ended is not renewed: another command may have received its message.
        """
        now = time.time()
        soon = [
            hold.message for hold in self._holds() if now < hold.until < now + RENEW_BELOW_SECONDS
        ]
        for batch in batches_by_queue(soon):
            with suppress(BotoCoreError, ClientError):
                self._change(batch, HOLD_SECONDS)
            yield

    def renew(self, messages: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Renew the holds of up to ten messages of one queue; return those that were still held."""
        now = time.time()
        held = {hold.message.message_id for hold in self._holds() if now < hold.until}
        kept = [message for message in messages if message.message_id in held]
        return self._change(kept, HOLD_SECONDS) if kept else []

    def _receive(self, queue: DeadLetterQueue) -> list[DeadLetter]:
        until = time.time() + HOLD_SECONDS
        answer = self._sqs.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=min(clients.BATCH_ENTRIES, self._left),
            VisibilityTimeout=HOLD_SECONDS,
            WaitTimeSeconds=WAIT_SECONDS,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = [DeadLetter.read(queue, message) for message in answer.get("Messages", [])]
        with self._lock:
            self._held |= {
                dead_letter.message_id: _Hold(dead_letter, until) for dead_letter in messages
            }
        return messages

    def _change(self, messages: Sequence[DeadLetter], seconds: int) -> list[DeadLetter]:
        """Hide messages of one queue for so long from now; return those that SQS accepted.

        With 0 seconds, they become visible and are no longer held.
        """
        until = time.time() + seconds
        answer = self._sqs.change_message_visibility_batch(
            QueueUrl=messages[0].queue.url,
            Entries=[
                {
                    "Id": str(n),
                    "ReceiptHandle": message.receipt_handle,
                    "VisibilityTimeout": seconds,
                }
                for n, message in enumerate(messages)
            ],
        )
        accepted = [messages[int(entry["Id"])] for entry in answer.get("Successful", [])]
        with self._lock:
            for message in accepted:
                # A message may have been deleted while its renewal was under way.
                if self._held.pop(message.message_id, None) and seconds:
                    self._held[message.message_id] = _Hold(message, until)
        return accepted

    def _holds(self) -> list[_Hold]:
        with self._lock:
            return [*self._held.values()]

    @property
    def progress_text(self) -> str:
        about = max(self.about.total, self.looked_at)  # the counts of SQS may be late
        text = f"looked at {self.looked_at} of about {counted(about, 'dead letter')}"
        if self.repeated:
            text += "; SQS returned these again before the others: run this command again"
        return f"{text}; {self.hidden}" if self.hidden else text

    def as_json(self) -> dict[str, Any]:
        seen = self.hidden or HiddenMessages(0, datetime.now(UTC))
        until = seen.until.isoformat(timespec="seconds")
        return {
            "looked_at": self.looked_at,
            "approximate_number": self.about.total,
            "hidden_by_other_commands": {"number": seen.number, "until": until}
            if seen.number
            else None,
            "withheld_by_sqs": seen.withheld,
        }

    def count_hidden(self) -> None:
        """Compare the walk with the present depth, while the walk still holds its messages."""
        now, withheld = self._depth(self._queues), 0
        if self.complete:
            # SQS's counts may be late. Messages counted twice and not received are hidden.
            number = min(self.about.total - self.looked_at, now.total - len(self._held))
            # A message that no command holds, and that SQS does not return either.
            ordered = [queue for queue in self._queues if queue.is_fifo]
            withheld = max(0, min(number, self._depth(ordered).visible))
        else:
            number = max(self.about.in_flight, now.in_flight - len(self._held))
        if number > 0:
            until = datetime.now(UTC) + timedelta(seconds=HOLD_SECONDS)
            self.hidden = HiddenMessages(number - withheld, until, withheld)

    def measure(self) -> None:
        """Read the depth of the queues, before the walk."""
        depths = {queue: clients.depth(self._sqs, queue.url) for queue in self._queues}
        self.about = sum(depths.values(), self.about)
        self._empty = [queue for queue, depth in depths.items() if not depth.visible]

    def _depth(self, queues: Iterable[DeadLetterQueue]) -> clients.QueueDepth:
        return clients.total_depth(self._sqs, [queue.url for queue in queues])

    def raise_if_hidden(self, effect: str = "") -> None:
        """Raise `OpsError` if other commands hid messages from the walk, or SQS withholds some."""
        if self.hidden:
            raise self.hidden.error(effect)

    def raise_if_lapsed(self) -> None:
        """Raise `OpsError` if the walk's messages were not held without a break.

        This happens if the machine slept or had no network while the operator decided.
        """
        if lapsed := self.lapsed:
            raise OpsError(
                f"{counted(lapsed, 'dead letter')} could not be held while this command waited, "
                "and another command may have changed them: nothing was done; run it again"
            )


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
        thread.join()  # a renewal after the walk has ended would hide its messages again


def batches_by_queue(messages: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
    """Yield batches of at most ten messages, each batch of one queue."""
    for queue in dict.fromkeys(message.queue for message in messages):
        yield from clients.batches([message for message in messages if message.queue == queue])


@dataclass(frozen=True, slots=True)
class HiddenMessages:
    """Messages that a walk could not see; their numbers are approximate on AWS.

    SQS says neither who hides a message nor until when. A command renews its hold while it runs, so
    that the messages of a command that ends or is killed now are visible at `until`.

    Attributes:
        until: when the longest hold ends, unless it is renewed.
        withheld: those of FIFO queues that SQS withholds, since earlier messages of their message
            group are held.
    """

    number: int
    until: datetime
    withheld: int = 0

    def __str__(self) -> str:
        parts = (
            (self.number, f"hidden until {self.until:%H:%M:%S} UTC, by another command"),
            (self.withheld, "withheld by SQS behind earlier ones of their message group"),
        )
        return "; ".join(f"{number} {how}" for number, how in parts if number)

    def error(self, effect: str = "") -> OpsError:
        """Return the error that tells of them, after their effect on the command."""
        remedies = []
        if self.number:
            remedies.append(
                "A command that still runs hides them for longer, and SQS may count messages that "
                "were just deleted for another minute: run this command again then"
            )
        if self.withheld:
            remedies.append(
                "SQS moved these messages by itself, and returns ten of a message group at most: "
                "redrive or purge the earlier ones, and run this command again"
            )
        return OpsError(". ".join([f"{effect}{self}", *remedies]), ExitCode.HIDDEN)


@contextmanager
def open_search(queues: Sequence[DeadLetterQueue], limit: int) -> Iterator[QueueWalk]:
    """Open a walk whose holds are renewed; print the number of messages that stay hidden."""
    walk = QueueWalk(clients.client("sqs"), queues, limit)
    walk.measure()
    try:
        with walk, renewing(walk):
            yield walk
            walk.count_hidden()
    finally:
        if held := walk.held:
            typer.echo(
                f"{counted(len(held), 'dead letter')} could not be given back: hidden for up to "
                f"{HOLD_SECONDS} seconds, and not lost",
                err=True,
            )


def selected_messages(
    walk: QueueWalk, names: Sequence[str], message_filter: MessageFilter
) -> Iterator[Sequence[DeadLetter]]:
    """Yield the messages of `messages_by_id`, or those that match, in batches of one queue."""
    if names:
        yield from batches_by_queue(messages_by_id(walk, names))
        return
    for page in walk.pages():
        yield [message for message in page if message_filter.matches(message)]


def unseen_text(name: str) -> str:
    return f"there is no dead letter {name!r} among those that could be seen"


def messages_by_id(walk: QueueWalk, ids: Sequence[str]) -> list[DeadLetter]:
    """Return the messages with these message ids, or beginnings of ids.

    Those of a FIFO queue are in the order of their places in its message groups.
    """
    found: dict[str, list[DeadLetter]] = {name: [] for name in dict.fromkeys(ids)}
    for page in walk.pages():
        for message in page:
            for name in found:
                if name and message.message_id.startswith(name):
                    found[name].append(message)
        # The beginning of an id may be that of others: all messages that SQS counts are read.
        least = SHOWN_ID if walk.looked_at >= walk.about.total > 0 else _WHOLE_ID
        if all(found.values()) and all(len(name) >= least for name in found):
            break
    for name, messages in found.items():
        if not messages:
            walk.count_hidden()
            unseen = unseen_text(name)
            walk.raise_if_hidden(f"{unseen}, and ")
            raise NotFoundError(f"{unseen}: `once dlq list` shows them")
        if len(messages) > 1:
            some = ", ".join(message.message_id for message in messages[:_MAX_IDS_SHOWN])
            raise OpsError(
                f"{len(messages)} dead letters begin with {name!r} ({some}): give more of the id"
            )
    different = {message.message_id: message for [message] in found.values()}.values()
    return sorted(different, key=lambda message: message.place)  # on a standard queue, all have 0
