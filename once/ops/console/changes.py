"""Changes: tells the pages that are open in a browser to read their content again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

_LOOK_SECONDS = 0.25
_COMMENT_EVERY = 60
"""Looks without a change between two comments, by which a closed connection is noticed."""


class Changes:
    """A counter that only grows; any thread may note a change.

    Attributes:
        number: the number of changes until now.
        watchers: number of pages that are open.
    """

    def __init__(self) -> None:
        self._numbers = count(1)
        self.number = 0
        self.watchers = 0

    def note(self) -> None:
        """Note that something on a page may have changed."""
        self.number = next(self._numbers)

    async def events(self, has_gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        """Yield a server-sent event at each change, until the browser has gone."""
        seen, looks = self.number, 0
        self.watchers += 1
        try:
            yield ": open\n\n"
            while not await has_gone():
                if self.number != seen:
                    seen = self.number
                    yield f"event: change\ndata: {seen}\n\n"
                elif looks % _COMMENT_EVERY == 0:
                    yield ": still there\n\n"
                looks += 1
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self.watchers -= 1
