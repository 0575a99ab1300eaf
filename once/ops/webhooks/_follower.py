"""Follower: the captures that are new in the index since the last look, the oldest first."""

from datetime import UTC, datetime, timedelta

from once.ops.webhooks.capture_filter import CaptureFilter
from once.ops.webhooks.capture_search import CaptureSearch
from once.schema import CLOCK_MARGIN_SECONDS
from once.webhooks.capture import Capture

OVERLAP = timedelta(minutes=2)
"""Time that is looked at again. A capture has the time at which its request was received; it
commits some seconds later, in the time of a clock that may be slow, and then reaches the index."""

_AHEAD = timedelta(seconds=CLOCK_MARGIN_SECONDS)

_Name = tuple[str, int]


class CaptureFollower:
    """Finds each capture once.

    Args:
        search: finds captures.
        conditions: the captures that are followed; `until` does not count.
        from_now: whether those that exist at the first look are left out.
    """

    def __init__(self, search: CaptureSearch, conditions: CaptureFilter, *, from_now: bool) -> None:
        self._search = search
        self._conditions = conditions
        self._skip = from_now
        self._position = conditions.since
        self._seen: dict[_Name, datetime] = {}

    @property
    def position(self) -> datetime:
        """The time of the newest capture that was found; the beginning before the first one."""
        return self._position

    def look(self, now: datetime) -> list[Capture]:
        """Return the captures that are new since the last look.

        Args:
            now: the time.

        Raises:
            OpsError: there are too many captures to look at.
            botocore.exceptions.BotoCoreError, ClientError: DynamoDB fails.
        """
        begin = max(self._conditions.since, min(self._position, now) - OVERLAP)
        self._search.index.read = 0
        names = self._conditions.endpoints(self._search.webhooks)
        found = [*self._search.index.newest(names, begin, now + _AHEAD)]
        new = [each for each in reversed(found) if _name(each) not in self._seen]
        self._seen = {name: at for name, at in self._seen.items() if at >= begin}
        self._seen |= {_name(each): _received(each) for each in found}
        self._position = max([self._position, *map(_received, new)])
        skipped, self._skip = self._skip, False
        return [] if skipped else [*filter(self._conditions.matches, new)]


def _name(capture: Capture) -> _Name:
    return capture.pk, capture.received_at


def _received(capture: Capture) -> datetime:
    return datetime.fromtimestamp(capture.received_at / 1000, UTC)
