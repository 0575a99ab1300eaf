"""The intent: what stands in a pending dedup record before a call leaves, and until it is done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from once.schema import Record, Standing


@dataclass(frozen=True, slots=True)
class Intent:
    """An effect that is going to be called, or was.

    Attributes:
        effect: the effect's name.
        provider_key: the idempotency key of every attempt, until a spent one is replaced.
        request: the bytes of every attempt: the request's model as JSON.
        key_expires_at: when the provider may forget the key, by the clock of the first to call, in
            seconds since the epoch; None where there is none to forget.
        owner: whose turn it is; only the owner may write the outcome.
        lease_until: by when the owner has ended, by its own clock, in milliseconds since the epoch.
        standing: what is known of the effect.
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
        """Read the intent of a pending record, in DynamoDB's own JSON form."""
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
        """Return the attributes of the pending record, in DynamoDB's own JSON form."""
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
        """Return what the record keeps when it is done: where to look at the provider."""
        return {
            Record.EFFECT: {"S": self.effect},
            Record.PROVIDER_KEY: {"S": self.provider_key},
        }
