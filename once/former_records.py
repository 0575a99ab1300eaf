"""Former records: the deduplication that a consumer, or a function with commands, used before Once.

Each commit also writes the former record of its event, on condition that there is none. The former
function and Once then compete for one item, so that only one of them changes state
(docs/migrating.md). `once.commit.former_dedup` has the write, and reads its results.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, Self

from msgspec import Struct

from once.business_tables import Table
from once.errors import InvalidWrite, NoKey
from once.events.cloud_event import CloudEvent


class FormerRecord(Struct, frozen=True):
    """The place of one event's former record: its table, and the values of its primary key."""

    records: "FormerRecords"
    key: tuple[str, ...]


class FormerRecords(Struct, frozen=True):
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
        answer: attribute with the former function's answer as JSON, which a command repeats; None
            if the former records have none.
    """

    table: Table[Any]
    key: Callable[[CloudEvent], tuple[str, ...] | None]
    status: str = "status"
    done: str = "done"
    lease_until: str = "lease_until"
    expires_at: str | None = None
    answer: str | None = None

    @classmethod
    def powertools(
        cls,
        table: Table[Any],
        *,
        prefix: str,
        value: Callable[[CloudEvent], Any],
        hash_function: str = "md5",
        partition: str | None = None,
    ) -> Self:
        """Return the records of the idempotency utility of Powertools for AWS Lambda.

        Args:
            table: the table of its DynamoDBPersistenceLayer, with the default attribute names.
            prefix: the part of a key before `#`: `key_prefix`, or else the function's name, a dot,
                and module and name of the decorated Python function.
            value: returns for an event what `event_key_jmespath` selected; None for an event
                without a key, which Powertools did not deduplicate. The event of a command has the
                caller's key as its `id`, and the scope as its `subject`.
            hash_function: the one of its IdempotencyConfig.
            partition: `static_pk_value` of a layer with a sort key, by default `idempotency#` and
                the function's name; None for a layer without one.
        """

        def key(event: CloudEvent) -> tuple[str, ...] | None:
            selected = value(event)
            if selected is None:
                return None
            try:
                text = json.dumps(selected, sort_keys=True)
            except TypeError as error:
                raise NoKey(f"the former key cannot be computed: {error}") from None
            digest = hashlib.new(hash_function, text.encode(), usedforsecurity=False)
            record = f"{prefix}#{digest.hexdigest()}"
            return (record,) if partition is None else (partition, record)

        lease, expiry, answer = "in_progress_expiration", "expiration", "data"
        return cls(table, key, "status", "COMPLETED", lease, expiry, answer)

    def record_of(self, event: CloudEvent, names: tuple[str, ...]) -> FormerRecord | None:
        """Return the place of an event's former record; None if it can have none.

        Raises:
            InvalidWrite: the key function does not return a text for each of these `names`, the
                attributes of the table's primary key.
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
