"""Check: a statement about AWS that is observed within a time, with one of three results."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from emulator.child_processes import ProcessFailed
from once.ops.errors import OpsError
from proof.real_aws.target import Target

POLL_SECONDS = 5.0
_NOT_OFFERED = frozenset(
    (
        *("InvalidAction", "UnknownOperationException", "UnsupportedOperation", "NotImplemented"),
        *("UnknownOperation", "UnknownAction", "AWS.SimpleQueueService.UnsupportedOperation"),
        *("AccessDenied", "AccessDeniedException", "UnrecognizedClientException"),
    )
)
"""Error codes with which this AWS, or the caller's own permissions, do not let a check observe."""


class Result(StrEnum):
    """Result of a check. What could not be observed is never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OBSERVED = "not observed"


@dataclass(frozen=True, slots=True)
class Seen:
    """One observation.

    Attributes:
        text: what was observed.
        result: the result; None while the check still waits.
        at_deadline: the result if the time ends with this observation.
    """

    text: str
    result: Result | None = None
    at_deadline: Result = Result.FAILED


def passed(text: str) -> Seen:
    """Return the observation that what was expected is so."""
    return Seen(text, Result.PASSED)


def failed(text: str) -> Seen:
    """Return the observation that it is not so."""
    return Seen(text, Result.FAILED)


def not_observed(text: str) -> Seen:
    """Return the observation that this AWS does not show it."""
    return Seen(text, Result.NOT_OBSERVED)


def waiting(text: str, *, at_deadline: Result = Result.FAILED) -> Seen:
    """Return the observation that it is not yet so."""
    return Seen(text, None, at_deadline)


def verdict(holds: bool, text: str) -> Seen:
    """Return a pass or a failure with the same text."""
    return passed(text) if holds else failed(text)


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: its name in the report.
        expected: the statement.
        seconds: the deadline.
        observe: yields observations: those with a result end it, after the others it is asked
            again a moment later. It may send messages first.
        if_not: what to do if AWS does otherwise.
        is_decisive: whether no later check means anything after its failure.
    """

    name: str
    expected: str
    seconds: float
    observe: Callable[[Target], Iterator[Seen]]
    if_not: str = field(kw_only=True)
    is_decisive: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Checked:
    """A check with its result."""

    name: str
    result: Result
    expected: str
    seen: str
    seconds: float
    if_not: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as the report has it."""
        return {
            "name": self.name,
            "result": str(self.result),
            "expected": self.expected,
            "seen": self.seen,
            "seconds": self.seconds,
            "if_not": self.if_not,
        }


def run_check(
    check: Check,
    target: Target,
    show: Callable[[str], object],
    *,
    patience: float = 1.0,
    poll_seconds: float = POLL_SECONDS,
) -> Checked:
    """Run a check until it has a result or its time is up.

    Args:
        check: the check.
        target: the deployed service.
        show: told of each observation.
        patience: multiplies the deadline.
        poll_seconds: time between two observations.
    """
    started = time.monotonic()
    limit = check.seconds * patience
    try:
        seen = _last(check.observe(target), show, started + limit, poll_seconds)
        result = seen.result or seen.at_deadline
        text = seen.text if seen.result else f"not within {limit:g} s: {seen.text}"
    except (ClientError, BotoCoreError) as error:
        result, text = _of_error(error), f"{type(error).__name__}: {error}"
    except (ProcessFailed, OpsError) as error:  # a deployment that CloudFormation refused
        result, text = Result.FAILED, str(error)
    seconds = round(time.monotonic() - started, 1)
    return Checked(check.name, result, check.expected, text, seconds, check.if_not)


def left_out(check: Check, decisive: Checked) -> Checked:
    """Return the result of a check that is not run after the failure of a decisive one."""
    text = f"not run, because {decisive.name} failed"
    return Checked(check.name, Result.NOT_OBSERVED, check.expected, text, 0.0, check.if_not)


def _last(
    observations: Iterator[Seen], show: Callable[[str], object], end: float, poll_seconds: float
) -> Seen:
    seen = failed("the check observed nothing")
    for seen in observations:
        if seen.result is not None or time.monotonic() >= end:
            break
        show(seen.text)
        time.sleep(poll_seconds)
    return seen


def _of_error(error: Exception) -> Result:
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
    # A number in place of a code: the answer is not that of the API.
    offered = code not in _NOT_OFFERED and not code.isdigit()
    return Result.FAILED if offered else Result.NOT_OBSERVED
