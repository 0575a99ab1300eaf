"""List of pending effects: the pending records among those that were read, the oldest first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from once.events.dedup_key import consumer_of, key_hash
from once.ops.dedup_records import DedupRecordReader, Item, text_attribute, time_attribute
from once.schema import Record, State

MOST_READ = 20_000
"""Most records that are read by default."""

_PENDING = "#state = :pending"
_NAMES = {"#state": Record.STATE}  # a reserved word


@dataclass(frozen=True, slots=True)
class ListedEffect:
    """A pending effect in a list; a value that is missing or not readable is None.

    Attributes:
        pk: the dedup key.
        effect: the effect's name.
        standing: whether the call may still run, did nothing, or has an outcome.
        since: time at which its intent was committed.
        lease_until: time by which its owner has ended, by the owner's clock.
        provider_key: the idempotency key at the provider.
        key_expires_at: time from which the provider may forget the key; None for a policy without
            one.
        settlement: who settled it by hand, when and why, as JSON.
    """

    pk: str
    effect: str | None
    standing: str | None
    since: datetime | None
    lease_until: datetime | None
    provider_key: str | None
    key_expires_at: datetime | None
    settlement: str | None

    @classmethod
    def read(cls, item: Item) -> "ListedEffect":
        """Read a record, attribute by attribute."""
        return cls(
            pk=item[Record.PK]["S"],
            effect=text_attribute(item, Record.EFFECT),
            standing=text_attribute(item, Record.STANDING),
            since=time_attribute(item, Record.COMMITTED_AT),
            lease_until=time_attribute(item, Record.LEASE_UNTIL),
            provider_key=text_attribute(item, Record.PROVIDER_KEY),
            key_expires_at=time_attribute(item, Record.KEY_EXPIRES_AT),
            settlement=text_attribute(item, Record.SETTLEMENT),
        )

    @property
    def consumer(self) -> str:
        """The consumer's name in the dedup key."""
        return consumer_of(self.pk)

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON value; times in ISO 8601."""
        times = {
            "since": self.since,
            "lease_until": self.lease_until,
            "key_expires_at": self.key_expires_at,
        }
        return {
            "key": self.pk,
            "key_hash": key_hash(self.pk),
            "effect": self.effect,
            "standing": self.standing,
            "provider_key": self.provider_key,
            **{name: time and time.isoformat(timespec="seconds") for name, time in times.items()},
            "settled": self.settlement is not None,
        }


@dataclass(frozen=True, slots=True)
class PendingList:
    """Pending effects.

    Attributes:
        effects: the effects, the oldest first.
        read: number of records that were read.
        left: approximate number of records that were not read; 0 if all were.
    """

    effects: list[ListedEffect]
    read: int
    left: int

    @property
    def note(self) -> str | None:
        """A remark on records that were not read; None if all were."""
        if not self.left:
            return None
        return (
            f"{self.read} records were read, and about {self.left} more were not: a pending effect "
            "may be among them. `once effects list --most` reads more; `once dlq list --reason "
            "effect-unknown` lists all that wait for a person"
        )


def list_pending(table: DedupRecordReader, most: int = MOST_READ) -> PendingList:
    """Return the pending effects among at most so many records, which are read by a scan.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
    """
    pending = {":pending": {"S": State.PENDING}}
    found = table.scan_some(_PENDING, pending, most=most, names=_NAMES)
    listed = sorted(map(ListedEffect.read, found.items), key=_age)
    total = 0 if found.complete else table.approximate_count()
    left = 0 if found.complete else max(1, total - found.read)
    return PendingList(listed, found.read, left)


def _age(effect: ListedEffect) -> tuple[float, str]:
    return effect.since.timestamp() if effect.since else 0.0, effect.pk
