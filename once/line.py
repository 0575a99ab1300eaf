"""Whose turn it is: the messages of one batch that have no fate yet."""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from once.course import Course, Fate, Result
from once.errors import Blocked, KeyConflict
from once.intake import Task

_SUSPECT_RECEIVES = 3
"""A message that came so often may be what killed the function: it takes no neighbours along."""


class _Rank(IntEnum):
    """In what order messages go, other things being equal; some of them one at a time."""

    HAS_AN_OUTCOME = 0
    """Its effect is done, and must be written down before another one begins."""
    LAST_CHANCE = 1
    """Were it left over when the time is up, it would be dead-lettered without a turn."""
    FRESH = 2
    IN_VAIN = 3
    """Others were in its way, and will be gone by then."""
    SUSPECT = 4


_TOGETHER = {_Rank.FRESH, _Rank.IN_VAIN}


class Line:
    """Keeps the order of a FIFO group, and lets one message of a key go at a time.

    Args:
        courses: the batch, in the order of its records.
    """

    def __init__(self, courses: Sequence[Course]) -> None:
        self._waiting = list(courses)
        self._committed: dict[str, str] = {}
        self._blocked: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Course]:
        return iter(self._waiting)

    def next(self, count: int) -> list[Course]:
        """Return those that go now: at least one, and `count` at most."""
        ranked = [(self._rank(course), course) for course in self._free()]
        first = min(rank for rank, _ in ranked)
        going = [course for rank, course in ranked if rank is first]
        if first is _Rank.SUSPECT:
            going = [_either_end(going)]
        going = going[: count if first in _TOGETHER else 1]
        for course in going:
            course.result = self._foregone(course)
        return going

    def leave(self, course: Course) -> None:
        """Take a message out whose fate is known: it may decide that of others."""
        self._waiting.remove(course)
        if course.fate is Fate.RETRIED and course.delivery.group is not None:
            self._blocked.add(course.delivery.group)
        if isinstance(course.result, Fate):
            identity = course.task.identity
            self._committed[identity.pk] = identity.fingerprint

    def _rank(self, course: Course) -> _Rank:
        if course.effect is not None:
            return _Rank.HAS_AN_OUTCOME
        if course.known is None and course.last_chance:
            return _Rank.LAST_CHANCE
        if course.known is None and course.delivery.receive_count >= _SUSPECT_RECEIVES:
            return _Rank.SUSPECT
        return _Rank.IN_VAIN if course.attempts else _Rank.FRESH

    def _free(self) -> Iterator[Course]:
        """Those that wait for no other of their group or key."""
        keys: set[str | None] = set()
        groups: set[str | None] = set()
        for course in self._waiting:
            pk, group = course.delivery.pk, course.delivery.group
            if pk not in keys and group not in groups:
                yield course
            keys |= {pk} - {None}
            groups |= {group} - {None}

    def _foregone(self, course: Course) -> Result | None:
        """What an earlier message of the batch has decided."""
        if course.delivery.group in self._blocked:
            return Blocked("an earlier message of its group failed")
        if not isinstance(course.delivery.work, Task):
            return None
        identity = course.delivery.work.identity
        match self._committed.get(identity.pk):
            case None:
                return None
            case identity.fingerprint:
                return Fate.DUPLICATE
            case _:
                return KeyConflict(
                    "an event with other content was committed under this key in this batch"
                )


def _either_end(suspects: Sequence[Course]) -> Course:
    """From the front and from the back by turns, so that a killer is behind everyone once."""
    return suspects[-1 if suspects[-1].delivery.receive_count % 2 == 0 else 0]
