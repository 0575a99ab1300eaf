"""Group order: keeps the letters of a FIFO message group in their order while they are sent."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Group = tuple[str, str]
"""A FIFO queue's URL, and a message group of it."""

WAITS = "not sent: an earlier letter of its message group was not sent"

_T = TypeVar("_T")


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
