"""Search: a queue walk, and the number of letters that it could not see."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from once.ops.aws.queue_depth import QueueDepth, total_depth
from once.ops.dead_letters.group_order import group_of
from once.ops.dead_letters.letter import DeadLetterQueue
from once.ops.dead_letters.queue_walk import HOLD_SECONDS, QueueWalk, renewing
from once.ops.errors import ExitCode, OpsError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_SHOWN = 3


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
        parts = []
        if self.number:
            parts.append(
                f"{self.number} hidden until {self.until:%H:%M:%S} UTC, by another command"
            )
        if self.withheld:
            such = f", such as {', '.join(self.earlier)}" if self.earlier else ""
            parts.append(
                f"{self.withheld} withheld by SQS behind earlier letters of their message group"
                f"{such}"
            )
        return "; ".join(parts)

    def error(self, effect: str = "") -> LettersHiddenError:
        """Return the error that tells of them, after their effect on the command."""
        remedies = []
        if self.number:
            remedies.append(
                "A command that still runs hides them for longer, and SQS may count letters that "
                "were just deleted for another minute: run this command again then"
            )
        if self.withheld:
            remedies.append(
                "SQS moved these letters by itself, and returns ten of a message group at most: "
                "redrive or purge the earlier ones, and run this command again"
            )
        return LettersHiddenError(". ".join([f"{effect}{self}", *remedies]))


@dataclass(slots=True)
class LetterSearch:
    """A queue walk, with the depth of its queues.

    Attributes:
        walk: the walk.
        queues: its queues.
        read_depth: reads the depth of queues, by URL.
        about: depth before the walk; approximate on AWS.
        hidden: what the walk could not see; None if nothing. Known after `count_hidden`.
        taken: letters of `about` that other commands have sent or deleted since, as far as a
            complete walk can tell. Known after `count_hidden`.
    """

    walk: QueueWalk
    queues: Sequence[DeadLetterQueue]
    read_depth: Callable[[Iterable[str]], QueueDepth]
    about: QueueDepth = field(init=False)
    hidden: HiddenLetters | None = None
    taken: int = 0

    def __post_init__(self) -> None:
        self.about = self._depth(self.queues)

    @property
    def progress_text(self) -> str:
        """The number of letters received, and of those hidden, as text."""
        text = f"looked at {self.walk.looked_at} of about {self.about.total} dead letters"
        if self.taken:
            text += f"; {self.taken} were sent or deleted meanwhile, by another command"
        return f"{text}; {self.hidden}" if self.hidden else text

    def as_json(self) -> dict[str, Any]:
        """Return the numbers of the search as JSON values."""
        seen = self.hidden or HiddenLetters(0, datetime.now(UTC))
        until = seen.until.isoformat(timespec="seconds")
        return {
            "looked_at": self.walk.looked_at,
            "approximate_number": self.about.total,
            "hidden_by_other_commands": {"number": seen.number, "until": until}
            if seen.number
            else None,
            "withheld_by_sqs": seen.withheld,
            "taken_by_other_commands": self.taken,
        }

    def count_hidden(self) -> None:
        """Compare the walk with the present depth, while the walk still holds its letters."""
        now, withheld = self._depth(self.queues), 0
        if self.walk.complete:
            # The counts of SQS may be late. What was counted twice and not received is hidden.
            unseen = self.about.total - self.walk.looked_at
            number = min(unseen, now.total - self.walk.hidden)
            self.taken = max(0, unseen - max(0, number))
            # A letter that no command holds, and that SQS does not return either.
            ordered = [queue for queue in self.queues if queue.is_fifo]
            withheld = max(0, min(number, self._depth(ordered).visible))
        else:
            number = max(self.about.in_flight, now.in_flight - self.walk.hidden)
        if number > 0:
            until = datetime.now(UTC) + timedelta(seconds=HOLD_SECONDS)
            earlier = self._first_of_shared_groups() if withheld else ()
            self.hidden = HiddenLetters(number - withheld, until, withheld, earlier)

    def _depth(self, queues: Iterable[DeadLetterQueue]) -> QueueDepth:
        return self.read_depth([queue.url for queue in queues])

    def _first_of_shared_groups(self) -> tuple[str, ...]:
        """Return the ids of the first held letters of message groups that SQS moved."""
        held = sorted(self.walk.held, key=lambda letter: letter.place)
        moved = [letter for letter in held if letter.moved and letter.queue.is_fifo]
        first = {group_of(letter): letter.message_id for letter in reversed(moved)}
        return tuple([*reversed(first.values())][:_SHOWN])

    def raise_if_hidden(self) -> None:
        """Raise `LettersHiddenError` if other commands hid letters from the walk."""
        if self.hidden:
            raise self.hidden.error()

    def raise_if_lapsed(self) -> None:
        """Raise `OpsError` if the walk's letters were not held without a break.

        This happens if the machine slept or had no network while the operator decided.
        """
        if lapsed := self.walk.lapsed:
            raise OpsError(
                f"{lapsed} dead letters could not be held while this command waited, and another "
                "command may have changed them: nothing was done; run this command again"
            )


@contextmanager
def open_search(
    sqs: "SQSClient", queues: Sequence[DeadLetterQueue], limit: int
) -> Iterator[LetterSearch]:
    """Open a walk whose holds are renewed; at its end, print the number of letters still hidden."""
    search = LetterSearch(QueueWalk(sqs, queues, limit), queues, partial(total_depth, sqs))
    try:
        with search.walk, renewing(search.walk):
            yield search
            search.count_hidden()
    finally:
        if search.walk.hidden:
            typer.echo(
                f"{search.walk.hidden} dead letters could not be given back: they are hidden for "
                f"up to {HOLD_SECONDS} seconds, and not lost",
                err=True,
            )
