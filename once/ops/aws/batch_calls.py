"""Batch calls of SQS: an entry counts as done when its own part of the answer says so."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import uniform
from typing import Any, TypeVar

from once.schema import Limits

Entry = Mapping[str, Any]
Call = Callable[[list[Any]], Mapping[str, Any]]
"""One call: takes entries, each with an `Id` of its own, and returns the service's answer."""

ATTEMPTS = 6
BACKOFF_SECONDS = 0.2

MOST = 10
"""What SQS takes in a call."""

T = TypeVar("T")


def in_tens(things: Sequence[T], size: int = MOST) -> Iterator[Sequence[T]]:
    """Yield the things in their order, as many at a time as fit into a call."""
    return (things[start : start + size] for start in range(0, len(things), size))


def in_calls(
    things: Iterable[T],
    size: Callable[[T], int],
    *,
    most: int = MOST,
    most_bytes: int = Limits.MESSAGE_BYTES,
) -> Iterator[list[T]]:
    """Yield the things in their order, as many at a time as fit into a call by number and size."""
    some: list[T] = []
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
    call: Call, entries: Iterable[Mapping[str, Any]]
) -> tuple[dict[int, Entry], dict[int, str]]:
    """Make a call for up to ten entries, and again for those that may yet be taken.

    Args:
        call: the call.
        entries: what it is made for, without ids.

    Returns:
        The answers of those that were taken, and what SQS said of the others; both by position.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: a whole call failed, retries included.
    """
    waiting = {str(number): {"Id": str(number), **entry} for number, entry in enumerate(entries)}
    taken: dict[int, Entry] = {}
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
                refused[int(name)] = _said(failure)
        if not waiting:
            break
    return taken, refused | {int(name): _said(failed.get(name, {})) for name in waiting}


def _said(failure: Entry) -> str:
    return f"{failure.get('Code', 'no reason given')} {failure.get('Message', '')}".strip()
