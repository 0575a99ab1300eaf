"""Former records: the deduplication that a consumer used before Once, honoured while it moves over.

Each commit also writes the former record of its event, in the same transaction and on condition
that there is none. The former function and Once then compete for one item, so that only one of them
changes state (docs/migrating.md).
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from once.errors import InvalidWrite, NoKey, PermanentError
from once.handlers.actions import Table
from once.schema import Reason

if TYPE_CHECKING:
    from once.events.cloud_event import CloudEvent

KeyFunction = Callable[["CloudEvent"], tuple[str, ...] | None]


class FormerUnfinished(PermanentError):
    """The function that Once replaced began with the event, and may have changed data."""

    reason = Reason.FORMER_UNFINISHED


class FormerRecord(Struct, frozen=True):
    """The place of one event's former record: its table, and the values of its primary key."""

    records: "FormerRecords"
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FormerRecords:
    """Records of one event type in a table that the former function writes as well.

    Attributes:
        table: the table, declared in `tables=` of the consumer as any other.
        key: returns the values of the record's primary key for an event, partition key first; None
            for an event that the former function did not deduplicate.
        status: attribute with the state of a record.
        done: the status of a record whose event has been processed. Any other one is unfinished.
        lease_until: attribute with the time until which the former function may still be running,
            in milliseconds since the epoch.
        expires_at: attribute with the record's expiry, in seconds since the epoch; None if the
            former records have none.
    """

    table: Table
    key: KeyFunction
    status: str = "status"
    done: str = "done"
    lease_until: str = "lease_until"
    expires_at: str | None = None

    @classmethod
    def powertools(
        cls,
        table: Table,
        *,
        prefix: str,
        value: Callable[["CloudEvent"], Any],
        hash_function: str = "md5",
        partition: str | None = None,
    ) -> Self:
        """Return the records of the idempotency utility of Powertools for AWS Lambda.

        Args:
            table: the table of its DynamoDBPersistenceLayer, with the default attribute names.
            prefix: the part of a key before `#`: `key_prefix`, or else the function's name, a dot,
                and module and name of the decorated Python function.
            value: returns for an event what `event_key_jmespath` selected; None for an event
                without a key, which Powertools did not deduplicate.
            hash_function: the one of its IdempotencyConfig.
            partition: `static_pk_value` of a layer with a sort key, by default `idempotency#` and
                the function's name; None for a layer without one.
        """

        def key(event: "CloudEvent") -> tuple[str, ...] | None:
            selected = value(event)
            if selected is None:
                return None
            record = f"{prefix}#{_hashed(selected, hash_function)}"
            return (record,) if partition is None else (partition, record)

        return cls(table, key, "status", "COMPLETED", "in_progress_expiration", "expiration")

    def record_of(self, event: "CloudEvent", names: tuple[str, ...]) -> FormerRecord | None:
        """Return the place of an event's former record; None if it can have none.

        Args:
            event: the event.
            names: the attributes of the table's primary key.

        Raises:
            InvalidWrite: the key function does not return a text for each of them.
        """
        key = self.key(event)
        if key is None:
            return None
        if len(key) != len(names) or not all(isinstance(v, str) and v for v in key):
            raise InvalidWrite(
                f"the key of the former record is to be a text for each of {', '.join(names)}: "
                "correct the key function of former="
            )
        return FormerRecord(self, key)


def _hashed(value: Any, function: str) -> str:
    try:
        text = json.dumps(value, sort_keys=True)
    except TypeError as error:
        raise NoKey(f"the former key cannot be computed: {error}") from None
    return hashlib.new(function, text.encode(), usedforsecurity=False).hexdigest()
