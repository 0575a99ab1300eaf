"""Fault injection: the effect of each fault on one attempt of a call."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from redelivery.boundary.call import Failures, Perform
from redelivery.faults import Fault


class Killed(BaseException):
    """The process is gone. Not an Exception, since no code of a dead process handles it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a call.

    Attributes:
        place: call site and call, in the words of a report.
        perform: makes the call.
        failures: make the exceptions of the caller's library.
        tell: adds a sentence to the course of the run.
        postpone: keeps a call that takes effect after the invocation.
        slow_down: lets most of the function's time pass.
    """

    place: str
    perform: Perform
    failures: Failures
    tell: Callable[[str], None]
    postpone: Callable[[Perform], None]
    slow_down: Callable[[], None]

    def perform_unheard(self) -> None:
        """Make the call; its answer or error does not arrive."""
        with contextlib.suppress(Exception):
            self.perform()


def meet(fault: Fault | None, attempt: Attempt) -> Any:
    """Return the call's answer, or raise what the caller sees; Killed if the process dies."""
    return _INJECTIONS[fault](attempt)


def _untouched(attempt: Attempt) -> Any:
    try:
        answer = attempt.perform()
    except Exception as error:
        attempt.tell(f"{attempt.place}: {_brief(error)}")
        raise
    attempt.tell(attempt.place)
    return answer


def _dies_before(attempt: Attempt) -> Any:
    attempt.tell(f"the process dies before {attempt.place}")
    raise Killed


def _dies_after(attempt: Attempt) -> Any:
    attempt.perform_unheard()
    attempt.tell(f"{attempt.place}: done; the process dies before the answer arrives")
    raise Killed


def _answer_lost(attempt: Attempt) -> Any:
    attempt.perform_unheard()
    attempt.tell(f"{attempt.place}: done, and the answer is lost")
    raise attempt.failures.no_answer()


def _answer_lost_retried(attempt: Attempt) -> Any:
    attempt.perform_unheard()
    attempt.tell(f"{attempt.place}: done, the answer is lost, and the SDK repeats the call")
    return _untouched(attempt)


def _refused(attempt: Attempt) -> Any:
    attempt.tell(f"{attempt.place}: no connection")
    raise attempt.failures.refused()


def _throttled(attempt: Attempt) -> Any:
    attempt.tell(f"{attempt.place}: throttled")
    raise attempt.failures.throttled()


def _conflicted(attempt: Attempt) -> Any:
    attempt.tell(f"{attempt.place}: another transaction holds the item")
    raise (attempt.failures.conflicted or attempt.failures.refused)()


def _timed_out(attempt: Attempt) -> Any:
    attempt.postpone(attempt.perform)
    attempt.tell(f"{attempt.place}: no answer in time; it takes effect later")
    raise attempt.failures.no_answer()


def _deadline(attempt: Attempt) -> Any:
    attempt.tell(f"{attempt.place}: slow; one second is left to the function")
    attempt.slow_down()
    return attempt.perform()


def _brief(error: Exception) -> str:
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    return code or type(error).__name__


_INJECTIONS: Mapping[Fault | None, Callable[[Attempt], Any]] = {
    None: _untouched,
    Fault.DIES_BEFORE: _dies_before,
    Fault.DIES_AFTER: _dies_after,
    Fault.ANSWER_LOST: _answer_lost,
    Fault.ANSWER_LOST_RETRIED: _answer_lost_retried,
    Fault.REFUSED: _refused,
    Fault.THROTTLED: _throttled,
    Fault.CONFLICTED: _conflicted,
    Fault.TIMED_OUT: _timed_out,
    Fault.DEADLINE: _deadline,
}
