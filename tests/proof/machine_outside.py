"""The outside world of the machines: a provider that knows keys, and a post that knows none."""

from collections import Counter
from collections.abc import Callable
from typing import Any

FORGOTTEN = 24 * 60 * 60
"""So long the provider remembers a key, in seconds."""


class Provider:
    """Charges once for each key that it remembers; where there is no key, each time.

    Attributes:
        charges: how often each event was charged.
        spoils: what becomes of the next charge: `done` or `not done`, and an error is saved.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answers: dict[str, tuple[float, str]] = {}
        self.first_asked: dict[str, float] = {}
        self.charges: Counter[str] = Counter()
        self.spoils = ""

    def answer(self, request: tuple[str, str]) -> str:
        """Charge; return `paid`, or `spent` where all there is under the key is an error."""
        name, key = request
        now = self._clock()
        self.first_asked.setdefault(key, now)
        if not name.startswith("k"):
            self.charges[name] += 1
            return "paid"
        when, known = self._answers.get(key, (now, ""))
        if known and now - when < FORGOTTEN:
            return known
        spoilt, self.spoils = self.spoils, ""
        self.charges[name] += spoilt != "not done"
        self._answers[key] = (now, "spent" if spoilt else "paid")
        return self._answers[key][1]

    def begin(self, request: tuple[str, str]) -> Any:
        """Take a request that is done later; return what does it."""
        return lambda: self.answer(request)


class Post:
    """The outside world: it sends whatever it is asked to, and knows no keys."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()

    def answer(self, name: str) -> str:
        """Send."""
        self.sent[name] += 1
        return "sent"

    def begin(self, name: str) -> Any:
        """Take what is sent later; return what sends it."""
        return lambda: self.answer(name)
