"""Intent: an effect's request, key and lease, in the pending dedup record until it is done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from once.schema import Record, Standing


@dataclass(frozen=True, slots=True)
class Intent:
    """An effect before and after its call, while its outcome is not committed.

    Attributes:
        effect: the effect's name.
        provider_key: the idempotency key of every attempt, unless a saved error needs a new one.
        request: the request's model as JSON; every attempt sends these bytes.
        key_expires_at: time from which the provider may forget the key, by the clock of the first
            caller, in seconds since the epoch; None without a key.
        owner: token of the delivery that may call and write the outcome.
        lease_until: time by which the owner has ended, by its own clock, in milliseconds since the
            epoch.
        standing: whether the call may still run, did nothing, or has an unknown outcome.
    """

    effect: str
    provider_key: str
    request: bytes
    key_expires_at: int | None
    owner: str
    lease_until: int
    standing: Standing

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> "Intent":
        """Read the intent of a pending record, in DynamoDB's JSON."""
        expires = item.get(Record.KEY_EXPIRES_AT)
        return cls(
            effect=item[Record.EFFECT]["S"],
            provider_key=item[Record.PROVIDER_KEY]["S"],
            request=item[Record.REQUEST]["S"].encode(),
            key_expires_at=None if expires is None else int(expires["N"]),
            owner=item[Record.OWNER]["S"],
            lease_until=int(item[Record.LEASE_UNTIL]["N"]),
            standing=Standing(item[Record.STANDING]["S"]),
        )

    def item(self) -> dict[str, Any]:
        """Return the attributes of the pending record, in DynamoDB's JSON."""
        attributes: dict[str, Any] = {
            **self.trail(),
            Record.REQUEST: {"S": self.request.decode()},
            Record.OWNER: {"S": self.owner},
            Record.LEASE_UNTIL: {"N": str(self.lease_until)},
            Record.STANDING: {"S": self.standing},
        }
        if self.key_expires_at is not None:
            attributes[Record.KEY_EXPIRES_AT] = {"N": str(self.key_expires_at)}
        return attributes

    def trail(self) -> dict[str, Any]:
        """Return the attributes that a done record keeps, to find the effect at the provider."""
        return {
            Record.EFFECT: {"S": self.effect},
            Record.PROVIDER_KEY: {"S": self.provider_key},
        }
