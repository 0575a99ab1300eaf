"""Confirmed letters: those of a dry run, found again when the operator has confirmed it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from once.ops.console.jobs import Progress
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.search import LetterSearch
from once.ops.errors import StoppedError

MOST_LINES = 50
"""Most letters that a page names one by one."""


@dataclass(slots=True)
class ConfirmedLetters:
    """A second walk for letters that a dry run has shown. Letters that arrived since stay.

    Attributes:
        ids: their message ids.
        search: the walk.
        missing: ids of those that were not found yet.
    """

    ids: Collection[str]
    search: LetterSearch
    missing: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.missing = set(self.ids)

    def pages(self) -> Iterator[Sequence[Letter]]:
        """Yield them in batches of one queue, until all are found or the queues are read."""
        for page in self.search.walk.pages():
            found = [letter for letter in page if letter.message_id in self.ids]
            self.missing -= {letter.message_id for letter in found}
            if found:
                yield found
            if not self.missing:
                return

    def result_lines(self) -> list[str]:
        """Return what became of the letters that were not found, as lines."""
        if not self.missing:
            return []
        self.search.count_hidden()
        hidden = self.search.hidden
        where = (
            f"sent, deleted or hidden by another command, or withheld by SQS ({hidden})"
            if hidden
            else ("sent or deleted meanwhile by another command")
        )
        return [
            f"{len(self.missing)} letters of the dry run were not found: {where}",
            *some_lines(sorted(self.missing)),
        ]


def some_lines(lines: Sequence[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more} more"] if more > 0 else [])]


def check_stop(progress: Progress, text: Callable[[], str]) -> None:
    """Raise `StoppedError` with a text if the operator has stopped the job."""
    if progress.stop.is_set():
        raise StoppedError(text())
