"""Selection of dead letters: by message id, or by a filter."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from once.ops.aws.queue_depth import depth
from once.ops.dead_letters.letter import DeadLetterQueue, Letter
from once.ops.dead_letters.queue_walk import HOLD_SECONDS, QueueWalk, batches_by_queue
from once.ops.dlq._options import LetterFilter
from once.ops.errors import OpsError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_WHOLE_ID = 36
_SHOWN = 5


@contextmanager
def open_walk(
    sqs: "SQSClient", queues: Sequence[DeadLetterQueue], limit: int
) -> Iterator[QueueWalk]:
    """Open a queue walk; at its end, print the number of letters that stay hidden."""
    walk = QueueWalk(sqs, queues, limit)
    try:
        with walk:
            yield walk
    finally:
        if walk.hidden:
            typer.echo(
                f"{walk.hidden} dead letters could not be given back: they are hidden for up to "
                f"{HOLD_SECONDS // 60} minutes, and not lost",
                err=True,
            )


def approximate_number(sqs: "SQSClient", queues: Sequence[DeadLetterQueue]) -> int:
    """Return the approximate number of dead letters, as SQS reports it."""
    return sum(depth(sqs, queue.url).total for queue in queues)


def progress_text(walk: QueueWalk, about: int) -> str:
    """Return the number of letters received, as text."""
    return f"looked at {walk.looked_at} of about {about} dead letters"


def selected_letters(
    walk: QueueWalk, names: Sequence[str], letter_filter: LetterFilter
) -> Iterator[Sequence[Letter]]:
    """Yield the named letters, or those that match the filter, in batches of one queue.

    Raises:
        OpsError: see `letters_by_id`.
    """
    if names:
        yield from batches_by_queue(letters_by_id(walk, names))
        return
    for page in walk.pages():
        yield [letter for letter in page if letter_filter.matches(letter)]


def letters_by_id(walk: QueueWalk, ids: Sequence[str]) -> list[Letter]:
    """Return the letters with these message ids, or beginnings of ids.

    Raises:
        OpsError: an id matches no letter, or more than one.
    """
    found: dict[str, list[Letter]] = {name: [] for name in dict.fromkeys(ids)}
    for page in walk.pages():
        for letter in page:
            for name in found:
                if name and letter.message_id.startswith(name):
                    found[name].append(letter)
        if all(found.values()) and all(len(name) == _WHOLE_ID for name in found):
            break
    letters = {letter.message_id: letter for name in found for letter in [_one(name, found[name])]}
    return [*letters.values()]


def _one(name: str, letters: Sequence[Letter]) -> Letter:
    if len(letters) == 1:
        return letters[0]
    if not letters:
        raise OpsError(
            f"there is no dead letter {name!r} among those that could be seen: `once dlq list` "
            "shows them; one that another command is reading is hidden until that command ends"
        )
    some = ", ".join(letter.message_id for letter in letters[:_SHOWN])
    raise OpsError(f"{len(letters)} dead letters begin with {name!r} ({some}): give more of the id")
