"""Intent: an effect's request, key and lease, in the pending dedup record until it is done."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from once.names import Record, Standing, State

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import UpdateTypeDef

_AS_READ = "#state = :pending AND #owner = :owner AND #standing = :standing"


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
        outcome: the outcome of a settled effect, as `once.effects.executor` writes it.
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


def pending_update(table: str, pk: str, before: Intent, after: Intent) -> "UpdateTypeDef":
    """Return the update that sets every attribute of an intent.

    Its condition fails if the record is not pending any more, or if its owner or its standing have
    changed since the intent was read as `before`.
    """
    values, names = after.item(), before.item() | after.item()
    gone = sorted(before.item().keys() - values.keys())
    changes = "SET " + ", ".join(f"#{name} = :new_{name}" for name in values)
    if gone:
        changes += " REMOVE " + ", ".join(f"#{name}" for name in gone)
    return {
        "TableName": table,
        "Key": {Record.PK: {"S": pk}},
        "UpdateExpression": changes,
        "ConditionExpression": _AS_READ,
        "ExpressionAttributeNames": {f"#{name}": name for name in (*names, Record.STATE)},
        "ExpressionAttributeValues": {
            **{f":new_{name}": value for name, value in values.items()},
            ":pending": {"S": State.PENDING},
            ":owner": {"S": before.owner},
            ":standing": {"S": before.standing},
        },
    }


def settled(found: Intent, outcome: str, settlement: str) -> Intent:
    """Return the intent of an effect whose outcome is known, in its kept form.

    The settlement says as JSON who settled it, when and why.
    """
    return replace(
        found,
        standing=Standing.SETTLED,
        outcome=outcome,
        settlement=settlement,
        owner=uuid4().hex,
    )


def not_done(found: Intent, settlement: str, *, new_key: bool = False) -> Intent:
    """Return the intent of an effect that certainly did not happen: it will be called again.

    It gets a new provider key if the old one returns a saved error only.
    """
    return replace(
        found,
        standing=Standing.NOT_DONE,
        outcome=None,
        settlement=settlement,
        owner=uuid4().hex,
        provider_key=found.next_key if new_key else found.provider_key,
    )


def _text(item: Mapping[str, Any], name: str) -> str | None:
    return item[name]["S"] if name in item else None
