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
        standing: whether the call may still run, did nothing, or has an outcome.
        outcome: the outcome of a settled effect, as `once.effects.kept_outcome` writes it.
        settlement: who settled the effect by hand, when and why, as JSON.
    """

    effect: str
    provider_key: str
    request: bytes
    key_expires_at: int | None
    owner: str
    lease_until: int
    standing: Standing
    outcome: str | None = None
    settlement: str | None = None

    @property
    def account(self) -> str:
        """The known state of the effect, for the text of an error."""
        match self.standing:
            case Standing.NOT_DONE:
                return f"its effect {self.effect!r} was certainly not done"
            case Standing.SETTLED:
                return f"its effect {self.effect!r} has an outcome, which its record keeps"
        return (
            f"its effect {self.effect!r} may have happened under the provider key "
            f"{self.provider_key}: find out outside whether it did"
        )

    @property
    def next_key(self) -> str:
        """The provider key that replaces this one if it cannot be used any more."""
        stem, _, number = self.provider_key.rpartition("-")
        return f"{stem}-{int(number) + 1}"

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
            outcome=_text(item, Record.EFFECT_OUTCOME),
            settlement=_text(item, Record.SETTLEMENT),
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
        if self.outcome is not None:
            attributes[Record.EFFECT_OUTCOME] = {"S": self.outcome}
        return attributes

    def trail(self) -> dict[str, Any]:
        """Return the attributes that a done record keeps: how the effect came about."""
        attributes = {
            Record.EFFECT: {"S": self.effect},
            Record.PROVIDER_KEY: {"S": self.provider_key},
        }
        if self.settlement is not None:
            attributes[Record.SETTLEMENT] = {"S": self.settlement}
        return attributes


def _text(item: Mapping[str, Any], name: str) -> str | None:
    return item[name]["S"] if name in item else None
