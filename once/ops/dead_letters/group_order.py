"""Group order: keeps the letters of a FIFO message group in their order while they are sent."""

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from once.ops.dead_letters.letter import Letter

Group = tuple[str, str]
"""URL of a FIFO dead-letter queue, and a message group of its consumer's queue."""

WAITS = "not sent: an earlier letter of its message group was not sent"

_T = TypeVar("_T")


def group_of(letter: Letter) -> Group | None:
    """Return the message group whose order must hold; None on a standard queue."""
    if letter.group is None or not letter.queue.is_fifo:
        return None
    return letter.queue.url, letter.group


def overtaken(sent: Collection[Letter], there: Iterable[Letter]) -> list[Letter]:
    """Return the letters that come before one of the sent ones in their group, and were not sent.

    Args:
        sent: the letters that are sent.
        there: the letters in the queues.
    """
    last: dict[Group | None, int] = {}
    for letter in sent:
        last[group_of(letter)] = max(letter.place, last.get(group_of(letter), 0))
    names = {letter.message_id for letter in sent}
    return [
        letter
        for letter in there
        if letter.place < last.get(group_of(letter), 0) and letter.message_id not in names
    ]


class GroupOrder:
    """Remembers the groups of which a letter was not sent: their later letters must not be sent."""

    def __init__(self) -> None:
        self._stopped: set[Group] = set()

    def stop(self, group: Group | None) -> None:
        """Note that a letter of a group was not sent; None for a letter without an order."""
        if group is not None:
            self._stopped.add(group)

    def may_go(
        self,
        letters: Iterable[_T],
        group_of: Callable[[_T], Group | None],
        stays: Callable[[_T], object],
    ) -> list[_T]:
        """Return the letters of groups without such a letter; call `stays` with each other one."""
        going = []
        for letter in letters:
            if group_of(letter) in self._stopped:
                stays(letter)
            else:
                going.append(letter)
        return going
