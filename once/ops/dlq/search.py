"""Search: a queue walk, and the number of letters that other commands hide from it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

from once.ops.aws.queue_depth import QueueDepth, total_depth
from once.ops.dead_letters.letter import DeadLetterQueue
from once.ops.dead_letters.queue_walk import HOLD_SECONDS, QueueWalk, renewing
from once.ops.errors import ExitCode, OpsError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class LettersHiddenError(OpsError):
    """Letters exist that this command could not see."""

    exit_code = ExitCode.HIDDEN


@dataclass(frozen=True, slots=True)
class HiddenLetters:
    """Letters that other commands hide.

    SQS says neither who hides a message nor until when. A command renews its hold while it runs, so
    that the letters of a command that ends or is killed now are visible at `until`.

    Attributes:
        number: their number; approximate on AWS.
        until: when the longest hold ends, unless it is renewed.
    """

    number: int
    until: datetime

    def __str__(self) -> str:
        return f"{self.number} hidden until {self.until:%H:%M:%S} UTC, by another command"

    def error(self, effect: str = "") -> LettersHiddenError:
        """Return the error that tells of them, after their effect on the command."""
        return LettersHiddenError(
            f"{effect}{self}. A command that still runs hides them for longer, and SQS may count "
            "letters that were just deleted for another minute: run this command again then"
        )


@dataclass(slots=True)
class LetterSearch:
    """A queue walk, with the depth of its queues.

    Attributes:
        walk: the walk.
        read_depth: reads the depth of the queues.
        about: depth before the walk; approximate on AWS.
        hidden: what other commands hide; None if nothing. Known after `count_hidden`.
        taken: letters of `about` that other commands have sent or deleted since, as far as a
            complete walk can tell. Known after `count_hidden`.
    """

    walk: QueueWalk
    read_depth: Callable[[], QueueDepth]
    about: QueueDepth = field(init=False)
    hidden: HiddenLetters | None = None
    taken: int = 0

    def __post_init__(self) -> None:
        self.about = self.read_depth()

    @property
    def progress_text(self) -> str:
        """The number of letters received, and of those hidden, as text."""
        text = f"looked at {self.walk.looked_at} of about {self.about.total} dead letters"
        if self.taken:
            text += f"; {self.taken} were sent or deleted meanwhile, by another command"
        return f"{text}; {self.hidden}" if self.hidden else text

    def as_json(self) -> dict[str, Any]:
        """Return the numbers of the search as JSON values."""
        hidden = self.hidden and {
            "number": self.hidden.number,
            "until": self.hidden.until.isoformat(timespec="seconds"),
        }
        return {
            "looked_at": self.walk.looked_at,
            "approximate_number": self.about.total,
            "hidden_by_other_commands": hidden,
            "taken_by_other_commands": self.taken,
        }

    def count_hidden(self) -> None:
        """Compare the walk with the present depth, while the walk still holds its letters."""
        now = self.read_depth()
        if self.walk.complete:
            # The counts of SQS may be late. What was counted twice and not received is hidden.
            unseen = self.about.total - self.walk.looked_at
            number = min(unseen, now.total - self.walk.hidden)
            self.taken = max(0, unseen - max(0, number))
        else:
            number = max(self.about.in_flight, now.in_flight - self.walk.hidden)
        if number > 0:
            until = datetime.now(UTC) + timedelta(seconds=HOLD_SECONDS)
            self.hidden = HiddenLetters(number, until)

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
    urls = [queue.url for queue in queues]
    search = LetterSearch(QueueWalk(sqs, queues, limit), lambda: total_depth(sqs, urls))
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
