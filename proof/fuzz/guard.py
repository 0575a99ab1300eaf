"""A bound on the time of one input: what takes longer hangs."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

MOST_SECONDS = 5.0
"""Of the processor's time, for an input that is read in a fraction of a second at most."""


class Hung(Exception):
    """An input took too long."""


class _Alarm(BaseException):
    """Ends a check, through whatever code that catches every Exception."""


@contextmanager
def alarm() -> Iterator[None]:
    """Let `guarded` end what hangs. Signals arrive in the main thread alone, so it goes there."""

    def ring(*_: object) -> NoReturn:
        raise _Alarm

    before = signal.signal(signal.SIGVTALRM, ring)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, before)


def guarded(check: Callable[[Any], None], found: Any) -> None:
    """Check an input within its time; under `alarm` alone.

    Raises:
        Hung: it takes too long.
        Exception: what the check raises.
    """
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        check(found)
    except _Alarm:
        raise Hung(f"more than {MOST_SECONDS} s") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
