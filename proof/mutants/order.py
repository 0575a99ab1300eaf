"""Broken order of message groups: in the commit, the relay, the batch and the failure handler."""

from collections.abc import Mapping, Sequence
from typing import Any

from once.batch._ready_queue import ReadyQueue
from once.batch.report import Finished
from once.errors import Blocked, PermanentError
from once.events.outgoing import OutgoingEvent
from once.failures.failure_handler import FailureHandler
from once.names import Record
from once.outbox.relay import Topics, found_in, remaining

_is_final = FailureHandler._is_final
_note = ReadyQueue._note


def found_in_record_and_item(record: Mapping[str, Any], *others: Any) -> Any:
    """Publish ordered events from the dedup record and from the sequence item."""
    images = record["dynamodb"]
    item = {n: value for n, value in images["NewImage"].items() if n != Record.SEQUENCED}
    return found_in({**record, "dynamodb": {**images, "NewImage": item}}, *others)


def all_at_once(self: Topics, events: Sequence[OutgoingEvent]) -> list[OutgoingEvent]:
    """Publish several events of a group in one call."""
    del self
    return [*events]


def failed_last(events: Any, going: Any, failures: Any) -> list[OutgoingEvent]:
    """Go on with the later events of a group, and publish the failed one after them."""
    failed = {failure.event.id for failure in failures}
    return sorted(remaining(events, going, failures), key=lambda event: event.id in failed)


def no_group_is_blocked(self: ReadyQueue, message: Finished) -> None:
    """Let a group go on in its batch after a failed message."""
    _note(self, message)
    self._blocked.clear()


def permanent_is_final(self: FailureHandler, delivery: Any, error: Any) -> bool:
    """Quarantine permanent failures, also where the group must wait."""
    return isinstance(error, PermanentError) or _is_final(self, delivery, error)


def waiting_is_an_attempt(self: FailureHandler, delivery: Any, error: Any) -> bool:
    """Quarantine a message that waits in its group at its last receive."""
    if isinstance(error, Blocked):
        return bool(delivery.is_last_chance)
    return _is_final(self, delivery, error)
