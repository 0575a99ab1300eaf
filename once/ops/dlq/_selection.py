"""How the commands of `dlq` go through the dead letters: all that are meant, or those named."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from once.ops.aws.queue_depth import depth
from once.ops.dead_letters.letter import Box, Letter
from once.ops.dead_letters.queue_walk import HOLD_SECONDS, Walk, by_box
from once.ops.dlq._options import Choice
from once.ops.errors import OpsError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_WHOLE_ID = 36
_SHOWN = 5


@contextmanager
def walking(sqs: "SQSClient", boxes: Sequence[Box], limit: int) -> Iterator[Walk]:
    """Hold letters while they are looked at, and tell of those that could not be given back."""
    walk = Walk(sqs, boxes, limit)
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


def approximate_number(sqs: "SQSClient", boxes: Sequence[Box]) -> int:
    """Return how many dead letters there are, as SQS last counted them."""
    return sum(depth(sqs, box.url).total for box in boxes)


def looked_at(walk: Walk, about: int) -> str:
    """Return how many letters were looked at, in words."""
    return f"looked at {walk.looked_at} of about {about} dead letters"


def meant(walk: Walk, names: Sequence[str], choice: Choice) -> Iterator[Sequence[Letter]]:
    """Yield the letters that are named, or else chosen, in tens at most, all of one queue.

    Raises:
        OpsError: see `named`.
    """
    if names:
        yield from by_box(named(walk, names))
        return
    for page in walk.pages():
        yield [letter for letter in page if choice.takes(letter)]


def named(walk: Walk, ids: Sequence[str]) -> list[Letter]:
    """Return the letters that are named by their message id, or by its beginning.

    Raises:
        OpsError: there is none of this name, or more than one.
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
            f"there is no dead letter {name!r} among those that could be seen: `dlq list` shows "
            "them; one that somebody else looks at is hidden until he is done"
        )
    some = ", ".join(letter.message_id for letter in letters[:_SHOWN])
    raise OpsError(f"{len(letters)} dead letters begin with {name!r} ({some}): give more of the id")
