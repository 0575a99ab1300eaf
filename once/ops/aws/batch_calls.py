"""Batch calls of SQS and SNS, with retries of the entries that failed."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import uniform
from typing import Any, TypeVar

from once.schema import Limits

_ResultEntry = Mapping[str, Any]
BatchCall = Callable[[list[Any]], Mapping[str, Any]]
"""Sends entries, each with an `Id` of its own, and returns the service's response."""

ATTEMPTS = 6
BACKOFF_SECONDS = 0.2

BATCH_ENTRIES = 10
"""Most entries that SQS and SNS accept in one call."""

_T = TypeVar("_T")


def batches(things: Sequence[_T], size: int = BATCH_ENTRIES) -> Iterator[Sequence[_T]]:
    """Yield the things in their order, at most `size` at a time."""
    return (things[start : start + size] for start in range(0, len(things), size))


def batches_by_size(
    things: Iterable[_T],
    size: Callable[[_T], int],
    *,
    most: int = BATCH_ENTRIES,
    most_bytes: int = Limits.MESSAGE_BYTES,
) -> Iterator[list[_T]]:
    """Yield the things in their order, in lists limited by number and by total size in bytes."""
    some: list[_T] = []
    total = 0
    for thing in things:
        more = size(thing)
        if some and (len(some) == most or total + more > most_bytes):
            yield some
            some, total = [], 0
        some.append(thing)
        total += more
    if some:
        yield some


def call_for_each(
    call: BatchCall, entries: Iterable[Mapping[str, Any]]
) -> tuple[dict[int, _ResultEntry], dict[int, str]]:
    """Make a call for up to ten entries, and repeat it for entries that failed temporarily.

    Args:
        call: the call.
        entries: the entries, without ids.

    Returns:
        The result entries of successful entries, and the failure texts of the others, by position.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
    """
    waiting = {str(number): {"Id": str(number), **entry} for number, entry in enumerate(entries)}
    taken: dict[int, _ResultEntry] = {}
    refused: dict[int, str] = {}
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(uniform(0, BACKOFF_SECONDS * 2**attempt))
        answer = call([*waiting.values()])
        for done in answer.get("Successful", []):
            del waiting[done["Id"]]
            taken[int(done["Id"])] = done
        failed = {failure["Id"]: failure for failure in answer.get("Failed", [])}
        for name, failure in failed.items():
            if failure.get("SenderFault"):
                del waiting[name]
                refused[int(name)] = _failure_text(failure)
        if not waiting:
            break
    return taken, refused | {int(name): _failure_text(failed.get(name, {})) for name in waiting}


def _failure_text(failure: _ResultEntry) -> str:
    return f"{failure.get('Code', 'no reason given')} {failure.get('Message', '')}".strip()
