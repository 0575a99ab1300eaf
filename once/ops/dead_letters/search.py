"""Search of dead letters: a walk of their queues, the letters by id or filter, and what is hidden.

A walk receives letters, which hides them, and makes them visible again at its end.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import typer
from botocore.exceptions import BotoCoreError, ClientError
from typer import Argument, BadParameter, Option

from once.errors import OnceError
from once.events.cloud_event import CloudEvent
from once.names import Reason
from once.ops.aws import clients
from once.ops.dead_letters.assessment import AssessedLetter
from once.ops.dead_letters.letter import DIED, DeadLetterQueue, Letter
from once.ops.errors import ExitCode, OpsError
from once.ops.terminal import (
    TIME_FORMATS,
    ServiceOption,
    counted,
    parse_time_option,
    single_line,
)

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

DEFAULT_LIMIT = 10_000

_REASONS = (*Reason, DIED)
_WHOLE_ID = 36
_MAX_IDS_SHOWN = 5
_MOST_GROUPS_SHOWN = 3

MOST_CHARACTERS = 160
NO_ERROR = "no error recorded"
"""Pattern of a letter without an error text."""

_VARIABLE = re.compile(r"[\w-]*\d[\w-]*(?:[.,:]\d[\w-]*)*")
"""A word with a digit: an id, a number, a time, an address in memory."""


def error_pattern(error: str | None, most: int = MOST_CHARACTERS) -> str:
    """Return the error's class and message with `…` in place of ids and numbers.

    Letters of one failure have the same pattern. It is one line of printable characters.
    """
    first, _, _ = ((error or "").strip() or NO_ERROR).partition("\n")
    shown = _VARIABLE.sub("…", single_line(first[: 3 * most]))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Selects dead letters that match every condition that is not None.

    Attributes:
        reason: reason code, or `died` for letters without one.
        error: the pattern of the error: see `error_pattern`.
        key: the event's id, or a part of a dedup key.
        before: dead-lettered before this time.
        since: dead-lettered at this time or later.
    """

    reason: str | None = None
    error: str | None = None
    key: str | None = None
    before: datetime | None = None
    since: datetime | None = None

    def matches(self, letter: Letter) -> bool:
        """Tell whether a letter matches."""
        pattern = error_pattern(letter.error)
        if not self.matches_failure(letter.reason, pattern, letter.sent_at):
            return False
        if self.key is None:
            return True
        read = AssessedLetter.of(letter)
        return self.matches_key(read.pk, event_id(read.event))

    def matches_failure(self, reason: str | None, pattern: str, sent_at: datetime) -> bool:
        """Tell whether the conditions on reason, error and time are met."""
        return (
            self.reason in (None, reason or DIED)
            and self.error in (None, pattern)
            and (self.before is None or sent_at < self.before)
            and (self.since is None or sent_at >= self.since)
        )

    def matches_key(self, key: str | None, event: str | None) -> bool:
        """Tell whether the condition on the key is met by a dedup key or an event's id."""
        return self.key is None or self.key in (key or "") or self.key == event


def event_id(event: CloudEvent | OnceError) -> str | None:
    """Return the id of an event; None if it cannot be read."""
    return None if isinstance(event, OnceError) else event.id


ConsumerOption = Annotated[
    str | None, Option("--consumer", help="Only dead letters of this consumer.")
]
MessageIdsArgument = Annotated[
    list[str] | None,
    Argument(
        metavar="MESSAGE_ID", help="Only these dead letters; the beginning of an id is enough."
    ),
]
LimitOption = Annotated[int, Option(min=1, help="Most dead letters to read.")]


@dataclass(frozen=True, kw_only=True)
class LetterOptions:
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
    since: Annotated[
        str | None,
        Option(metavar="WHEN", help=f"Only dead letters from this time or later: {TIME_FORMATS}."),
    ] = None
    until: Annotated[
        str | None, Option(metavar="WHEN", help="Only dead letters from before this time.")
    ] = None
    limit: LimitOption = DEFAULT_LIMIT
    service: ServiceOption = "once"

    def for_log(self) -> dict[str, Any]:
        """Return the options for the operator log; the key and the error by their SHA-256."""
        own = {one.name: getattr(self, one.name) for one in fields(LetterOptions)}
        return {**own, "key": _digest(self.key), "error": _digest(self.error)}

    def letter_filter(self, ids: Sequence[str] = ()) -> LetterFilter:
        """Parse the options that select letters, which message ids exclude.

        Raises:
            typer.BadParameter: an option cannot be parsed, or there are ids and a filter.
        """
        if self.reason is not None and self.reason not in _REASONS:
            raise BadParameter(
                f"{self.reason!r} is none: give one of {', '.join(_REASONS)}", param_hint="--reason"
            )
        found = LetterFilter(
            reason=self.reason,
            error=None if self.error is None else error_pattern(self.error),
            key=self.key,
            since=_time(self.since, "--since"),
            before=_time(self.until, "--until"),
        )
        if ids and found != LetterFilter():
            raise BadParameter(
                "dead letters are named or filtered: leave the filters or the ids out"
            )
        return found


def _time(text: str | None, option: str) -> datetime | None:
    return parse_time_option(text, now=datetime.now(UTC), option=option) if text else None


def _digest(text: str | None) -> str | None:
    return None if text is None else f"SHA-256 {sha256(text.encode()).hexdigest()}"


class _Hold(NamedTuple):
    letter: Letter
    until: float
    """Time until which SQS hides the letter, in seconds since 1970."""


class QueueWalk:
    """Context manager that receives letters and hides them until it ends.

    At its end, also by an error, all letters that were not deleted become visible again. If that
    call fails, they become visible after `HOLD_SECONDS`. At most `limit` letters are received.

    Of a FIFO queue, SQS withholds the later letters of a message group while earlier ones are held.
    A letter that a consumer dead-lettered is a group of its own. Letters that SQS moved share
    theirs: ten of them are received, and more when those are deleted.

    Attributes:
        complete: whether every queue was read until SQS returned no more letters.
        cut_short: whether the limit ended the walk within a FIFO queue, so that earlier letters of
            a message group may not have been received.
        about: depth of the queues before the walk; approximate on AWS. Known in `open_search`.
        hidden: what the walk could not see; None if nothing. Known after `count_hidden`.
        taken: letters of `about` that other commands have sent or deleted since, as far as a
            complete walk can tell. Known after `count_hidden`.
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
        self.about = clients.QueueDepth(0, 0, 0)
        self.hidden: HiddenLetters | None = None
        self.taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for batch in batches_by_queue(self.held):
            with suppress(BotoCoreError, ClientError):
                self._change(batch, 0)

    @property
    def looked_at(self) -> int:
        """Number of letters received so far."""
        return len(self._seen)

    @property
    def lapsed(self) -> int:
        """Number of letters whose hold ended before it was renewed: others may receive them."""
        now = time.time()
        return sum(hold.until <= now for hold in self._holds())

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
        # SQS returns the groups in any order, and each letter of a consumer is one.
        while found:
            letters: list[Letter] = []
            while found:
                letters += self._new(found)
                found = self._receive(queue) if self._left else []
            self.cut_short |= not self._left
            held = len(self._held)
            yield from clients.batches(sorted(letters, key=lambda letter: letter.place))
            # When letters were deleted meanwhile, SQS may return more of their groups.
            found = self._receive(queue) if self._left and len(self._held) < held else []

    def _new(self, found: Iterable[Letter]) -> list[Letter]:
        new = [letter for letter in found if letter.message_id not in self._seen]
        self._seen |= {letter.message_id for letter in new}
        self._left = max(0, self._left - len(new))
        return new

    def _first_letters(self) -> Iterator[tuple[DeadLetterQueue, list[Letter]]]:
        if self._left < clients.BATCH_ENTRIES * len(self._queues):
            for queue in self._queues:
                yield queue, self._receive(queue) if self._left else []
            return
        with ThreadPoolExecutor(
            clients.THREADS
        ) as pool:  # to find a queue empty takes `WAIT_SECONDS`
            found = [*pool.map(self._receive, self._queues)]
        yield from zip(self._queues, found, strict=True)

    def delete(self, letters: Sequence[Letter]) -> dict[str, str]:
        """Delete up to ten letters of one queue.

        Returns:
            The failure texts of letters that were not deleted, by message id.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
        """
        url = letters[0].queue.url
        _, refused = clients.call_for_each(
            lambda entries: self._sqs.delete_message_batch(QueueUrl=url, Entries=entries),
            ({"ReceiptHandle": letter.receipt_handle} for letter in letters),
        )
        with self._lock:
            for number, letter in enumerate(letters):
                if number not in refused:
                    self._held.pop(letter.message_id, None)
        return {letters[number].message_id: said for number, said in refused.items()}

    def renewals(self) -> Iterator[None]:
        """Renew the holds that end soon, a call at each step. A failed call leaves its letters.

        A hold that has ended is not renewed: another command may have received its letter.
        """
        now = time.time()
        soon = [
            hold.letter for hold in self._holds() if now < hold.until < now + RENEW_BELOW_SECONDS
        ]
        for batch in batches_by_queue(soon):
            with suppress(BotoCoreError, ClientError):
                self._change(batch, HOLD_SECONDS)
            yield

    def renew(self, letters: Sequence[Letter]) -> list[Letter]:
        """Renew the holds of up to ten letters of one queue; return those that were still held.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: the whole call failed.
        """
        now = time.time()
        held = {hold.letter.message_id for hold in self._holds() if now < hold.until}
        kept = [letter for letter in letters if letter.message_id in held]
        return self._change(kept, HOLD_SECONDS) if kept else []

    def _receive(self, queue: DeadLetterQueue) -> list[Letter]:
        until = time.time() + HOLD_SECONDS
        answer = self._sqs.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=min(clients.BATCH_ENTRIES, self._left),
            VisibilityTimeout=HOLD_SECONDS,
            WaitTimeSeconds=WAIT_SECONDS,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        letters = [Letter.read(queue, message) for message in answer.get("Messages", [])]
        with self._lock:
            self._held |= {letter.message_id: _Hold(letter, until) for letter in letters}
        return letters

    def _change(self, letters: Sequence[Letter], seconds: int) -> list[Letter]:
        """Hide letters of one queue for so long from now; return those that SQS accepted.

        With 0 seconds, they become visible and are no longer held.
        """
        until = time.time() + seconds
        answer = self._sqs.change_message_visibility_batch(
            QueueUrl=letters[0].queue.url,
            Entries=[
                {"Id": str(n), "ReceiptHandle": letter.receipt_handle, "VisibilityTimeout": seconds}
                for n, letter in enumerate(letters)
            ],
        )
        accepted = [letters[int(entry["Id"])] for entry in answer.get("Successful", [])]
        with self._lock:
            for letter in accepted:
                # A letter may have been deleted while its renewal was under way.
                if self._held.pop(letter.message_id, None) and seconds:
                    self._held[letter.message_id] = _Hold(letter, until)
        return accepted

    def _holds(self) -> list[_Hold]:
        with self._lock:
            return [*self._held.values()]

    @property
    def progress_text(self) -> str:
        """The number of letters received, and of those hidden, as text."""
        about = max(self.about.total, self.looked_at)  # the counts of SQS may be late
        text = f"looked at {self.looked_at} of about {counted(about, 'dead letter')}"
        if self.taken:
            text += f"; {self.taken} were sent or deleted meanwhile, by another command"
        return f"{text}; {self.hidden}" if self.hidden else text

    def as_json(self) -> dict[str, Any]:
        """Return the numbers of the search as JSON values."""
        seen = self.hidden or HiddenLetters(0, datetime.now(UTC))
        until = seen.until.isoformat(timespec="seconds")
        return {
            "looked_at": self.looked_at,
            "approximate_number": self.about.total,
            "hidden_by_other_commands": {"number": seen.number, "until": until}
            if seen.number
            else None,
            "withheld_by_sqs": seen.withheld,
            "taken_by_other_commands": self.taken,
        }

    def count_hidden(self) -> None:
        """Compare the walk with the present depth, while the walk still holds its letters."""
        now, withheld = self._depth(self._queues), 0
        if self.complete:
            # The counts of SQS may be late. What was counted twice and not received is hidden.
            unseen = self.about.total - self.looked_at
            number = min(unseen, now.total - len(self._held))
            self.taken = max(0, unseen - max(0, number))
            # A letter that no command holds, and that SQS does not return either.
            ordered = [queue for queue in self._queues if queue.is_fifo]
            withheld = max(0, min(number, self._depth(ordered).visible))
        else:
            number = max(self.about.in_flight, now.in_flight - len(self._held))
        if number > 0:
            until = datetime.now(UTC) + timedelta(seconds=HOLD_SECONDS)
            # The first held letters of the message groups that SQS moved.
            held = sorted(self.held, key=lambda letter: letter.place, reverse=True)
            moved = [letter for letter in held if letter.moved and letter.queue.is_fifo]
            first = {letter.ordered_group: letter.message_id for letter in moved if withheld}
            earlier = tuple([*reversed(first.values())][:_MOST_GROUPS_SHOWN])
            self.hidden = HiddenLetters(number - withheld, until, withheld, earlier)

    def measure(self) -> None:
        """Read the depth of the queues, before the walk."""
        self.about = self._depth(self._queues)

    def _depth(self, queues: Iterable[DeadLetterQueue]) -> clients.QueueDepth:
        return clients.total_depth(self._sqs, [queue.url for queue in queues])

    def raise_if_hidden(self) -> None:
        """Raise `LettersHiddenError` if other commands hid letters from the walk."""
        if self.hidden:
            raise self.hidden.error()

    def raise_if_lapsed(self) -> None:
        """Raise `OpsError` if the walk's letters were not held without a break.

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
        thread.join()  # a renewal after the walk has ended would hide its letters again


def batches_by_queue(letters: Sequence[Letter]) -> Iterator[Sequence[Letter]]:
    """Yield batches of at most ten letters, each batch of one queue."""
    for queue in dict.fromkeys(letter.queue for letter in letters):
        yield from clients.batches([letter for letter in letters if letter.queue == queue])


class LettersHiddenError(OpsError):
    """Letters exist that this command could not see.

    Remedy: run the command again after the time that it names; of letters that SQS withholds,
    redrive or purge the earlier ones first.
    """

    exit_code = ExitCode.HIDDEN


@dataclass(frozen=True, slots=True)
class HiddenLetters:
    """Letters that a walk could not see; their numbers are approximate on AWS.

    SQS says neither who hides a message nor until when. A command renews its hold while it runs, so
    that the letters of a command that ends or is killed now are visible at `until`.

    Attributes:
        number: those that other commands hide.
        until: when the longest hold ends, unless it is renewed.
        withheld: those of FIFO queues that SQS withholds, since earlier letters of their message
            group are held.
        earlier: message ids of the first of those earlier letters, as far as this walk holds them.
    """

    number: int
    until: datetime
    withheld: int = 0
    earlier: tuple[str, ...] = ()

    def __str__(self) -> str:
        such = f", such as {', '.join(self.earlier)}" if self.earlier else ""
        behind = f"behind earlier ones of their message group{such}"
        parts = (
            (self.number, f"hidden until {self.until:%H:%M:%S} UTC, by another command"),
            (self.withheld, f"withheld by SQS {behind}"),
        )
        return "; ".join(f"{number} {how}" for number, how in parts if number)

    def error(self, effect: str = "") -> LettersHiddenError:
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
        return LettersHiddenError(". ".join([f"{effect}{self}", *remedies]))


@contextmanager
def open_search(queues: Sequence[DeadLetterQueue], limit: int) -> Iterator[QueueWalk]:
    """Open a walk whose holds are renewed; at its end, print the number of letters still hidden."""
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


def selected_letters(
    walk: QueueWalk, names: Sequence[str], letter_filter: LetterFilter
) -> Iterator[Sequence[Letter]]:
    """Yield the letters of `letters_by_id`, or those that match, in batches of one queue."""
    if names:
        yield from batches_by_queue(letters_by_id(walk, names))
        return
    for page in walk.pages():
        yield [letter for letter in page if letter_filter.matches(letter)]


def letters_by_id(walk: QueueWalk, ids: Sequence[str]) -> list[Letter]:
    """Return the letters with these message ids, or beginnings of ids.

    Those of a FIFO queue are in the order of their places in its message groups.

    Raises:
        OpsError: an id matches no letter, or more than one.
        LettersHiddenError: an id matches no letter, and other commands hide some.
    """
    found: dict[str, list[Letter]] = {name: [] for name in dict.fromkeys(ids)}
    for page in walk.pages():
        for letter in page:
            for name in found:
                if name and letter.message_id.startswith(name):
                    found[name].append(letter)
        if all(found.values()) and all(len(name) == _WHOLE_ID for name in found):
            break
    for name, letters in found.items():
        if not letters:
            walk.count_hidden()
            unseen = f"there is no dead letter {name!r} among those that could be seen"
            if walk.hidden:
                raise walk.hidden.error(f"{unseen}, and ")
            raise OpsError(f"{unseen}: `once dlq list` shows them")
        if len(letters) > 1:
            some = ", ".join(letter.message_id for letter in letters[:_MAX_IDS_SHOWN])
            raise OpsError(
                f"{len(letters)} dead letters begin with {name!r} ({some}): give more of the id"
            )
    different = {letter.message_id: letter for [letter] in found.values()}.values()
    return sorted(different, key=lambda letter: letter.place)  # on a standard queue, all have 0
