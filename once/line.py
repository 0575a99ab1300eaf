"""Whose turn it is: the messages of one batch that have no fate yet."""

from collections.abc import Iterator, Sequence
from itertools import islice

from once.course import Course, Fate, Result
from once.errors import Blocked, KeyConflict
from once.intake import Task


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
        """Return those that go now, at least one.

        First what has not tried yet; then what others got in the way of, which will have passed by
        then; in the end what might take its neighbours along, one by one.
        """
        willing = (course for course in self._free() if not course.suspect)
        fresh = (course for course in self._free() if not course.suspect and not course.attempts)
        turn = list(islice(fresh, count)) or list(islice(willing, count)) or [self._suspect()]
        for course in turn:
            course.result = self._foregone(course)
        return turn

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
        held: set[str | None] = set()
        for course in self._waiting:
            pk, group = course.delivery.pk, course.delivery.group
            if pk not in held and group not in held:
                yield course
            held |= {pk, group} - {None}

    def _suspect(self) -> Course:
        """From the front and from the back by turns, so that a killer is behind everyone once."""
        suspects = list(self._free())
        return suspects[-1 if suspects[-1].delivery.receive_count % 2 == 0 else 0]

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
