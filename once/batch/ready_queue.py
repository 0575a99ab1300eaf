"""Whose turn it is: the messages of one batch that have no fate yet."""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from once.batch.message_state import Course
from once.errors import Blocked, KeyConflict
from once.fate import Fate, Result
from once.intake.reader import Task


class _Rank(IntEnum):
    """Where in the line a message stands; those of one rank are in the order of the batch."""

    LAST_CHANCE = 0
    """Were it left over when the time is up, it would be dead-lettered without a turn."""
    ORDINARY = 1
    SUSPECT = 2


class Line:
    """Keeps the order of a FIFO group, and lets one message of a key go at a time.

    Args:
        courses: the batch, in the order of its records.
    """

    def __init__(self, courses: Sequence[Course]) -> None:
        self._ranks = _ranks(courses)
        self._waiting = sorted(courses, key=self._ranks.__getitem__)
        self._went: Sequence[Course] = ()
        self._committed: dict[str, str] = {}
        self._blocked: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Course]:
        return iter(self._waiting)

    def next(self, count: int) -> list[Course]:
        """Return those that go now: at least one, and `count` at most."""
        self._went = self._unwritten() or self._chosen(count)
        for course in self._went:
            course.result = self._foregone(course)
        return self._went

    def _unwritten(self) -> list[Course]:
        """The one whose effect is done: that is written down before another effect begins."""
        return [c for c in self._went if c.effect is not None and c.fate is None]

    def _chosen(self, count: int) -> list[Course]:
        """First whom nobody was in the way of; for the others the ways may be free by then."""
        fresh: list[Course] = []
        in_vain: list[Course] = []
        for course in self._free():
            if self._ranks[course] is _Rank.LAST_CHANCE and not course.attempts:
                return [course]
            if self._ranks[course] is _Rank.SUSPECT:
                break
            (in_vain if course.attempts else fresh).append(course)
            if len(fresh) == count:
                break
        return fresh or in_vain[:count] or [_either_end(list(self._free()))]

    def leave(self, course: Course) -> None:
        """Take a message out whose fate is known: it may decide that of others."""
        self._waiting.remove(course)
        if course.fate is Fate.RETRIED and course.delivery.group is not None:
            self._blocked.add(course.delivery.group)
        if isinstance(course.result, Fate):
            identity = course.task.identity
            self._committed[identity.pk] = identity.fingerprint

    def _free(self) -> Iterator[Course]:
        """Those that wait for no other of their group or key."""
        keys: set[str] = set()
        groups: set[str] = set()
        for course in self._waiting:
            pk, group = course.delivery.pk, course.delivery.group
            if pk not in keys and group not in groups:
                yield course
            if pk is not None:
                keys.add(pk)
            if group is not None:
                groups.add(group)

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


def _ranks(courses: Sequence[Course]) -> dict[Course, _Rank]:
    """Return each one's rank. All of a FIFO group have one, or the group would be torn."""
    first: dict[str, _Rank] = {}
    for course in courses:
        if course.delivery.group is not None and not course.is_decided:
            first.setdefault(course.delivery.group, _rank(course))
    return {c: first.get(c.delivery.group or "", _rank(c)) for c in courses}


def _rank(course: Course) -> _Rank:
    if course.is_decided:
        return _Rank.ORDINARY  # its handler will not run
    if course.last_chance:
        return _Rank.LAST_CHANCE
    return _Rank.SUSPECT if course.came_often else _Rank.ORDINARY


def _either_end(suspects: Sequence[Course]) -> Course:
    """From the front and from the back by turns, so that a killer is behind everyone once."""
    fewest = min(course.attempts for course in suspects)
    suspects = [course for course in suspects if course.attempts == fewest]
    return suspects[-1 if suspects[-1].delivery.receive_count % 2 == 0 else 0]
