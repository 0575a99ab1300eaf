"""Effect ledger: the intents in pending records, each change fenced by the owner's token.

A takeover changes the token. The condition of every later change by the previous owner then fails,
so it neither calls nor writes any more. Each change is a transaction of one action, because the
function's role allows writes only inside transactions.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from msgspec import Struct

from once.effects.declaration import Effect, Policy, declared_text
from once.errors import (
    THROTTLING,
    EffectUnknown,
    InFlight,
    Refusal,
    Throttled,
    Unanswered,
    summary_of,
)
from once.events.identity import key_hash
from once.names import Record, Standing, State

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import UpdateTypeDef

_MILLISECONDS = 1000
_HAND_BACKS = 3

# Condition of each change of a pending record. Two deliveries find the same record, whose owner has
# handed it back:
#
#     A: reads (owner x, unknown) ── takeover (owner a) ── call
#     B: reads (owner x, unknown) ──────────────────────── takeover ─> cancelled: the owner is a
#
# The standing is compared too: the owner may hand the effect back in between, and a takeover would
# overwrite what it has found out. The state is, since a completion may have ended the record.
_AS_READ = "#state = :pending AND #owner = :owner AND #standing = :standing"


class ChangeThrottled(Unanswered, Throttled):
    """DynamoDB throttled the change of a pending record."""


class Intent(Struct, frozen=True):
    """An effect before and after its call: request, key and lease, until its outcome is committed.

    Attributes:
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
        declared: policy and shape of its outcome, as JSON: see `Declared`.
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
    declared: str | None = None

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
        """The provider key that replaces this one."""
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
            outcome=item[Record.EFFECT_OUTCOME]["S"] if Record.EFFECT_OUTCOME in item else None,
            settlement=item[Record.SETTLEMENT]["S"] if Record.SETTLEMENT in item else None,
            declared=item[Record.DECLARED]["S"] if Record.DECLARED in item else None,
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
        if self.declared is not None:
            attributes[Record.DECLARED] = {"S": self.declared}
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
    mine = msgspec.structs.replace(found, owner=uuid4().hex, settlement=settlement)
    return msgspec.structs.replace(mine, standing=Standing.SETTLED, outcome=outcome)


def not_done(found: Intent, settlement: str, *, new_key: bool = False) -> Intent:
    """Return the intent of an effect that certainly did not happen: it will be called again.

    It gets a new provider key if the old one returns a saved error only.
    """
    key = found.next_key if new_key else found.provider_key
    mine = msgspec.structs.replace(found, owner=uuid4().hex, settlement=settlement)
    return msgspec.structs.replace(mine, standing=Standing.NOT_DONE, outcome=None, provider_key=key)


class EffectLedger(Struct):
    """Opens, takes over and hands back the effects of one consumer.

    The pending records are in the table of dedup records. The clocks of two functions may differ by
    the margin.
    """

    client: "DynamoDBClient"
    table: str
    clock: Callable[[], float]
    logger: "Logger"
    margin_seconds: float

    def open(
        self,
        effect: Effect[Any, Any],
        request: bytes,
        pk: str,
        lease_seconds: float,
        refusals: Iterable[type[Refusal]] = (),
    ) -> Intent:
        """Return the intent to commit before the first call.

        The provider key derives from the event's key, so it is the same even if the record is lost.
        The lease ends when this function has ended, and is stored by its clock; the function that
        reads it adds the margin for its own. `refusals` are those that the consumer answers.
        """
        return Intent(
            effect=effect.name,
            provider_key=f"once-{key_hash(pk)}-{effect.name}-1",
            request=request,
            key_expires_at=self._key_expiry(effect),
            owner=uuid4().hex,
            lease_until=self._lease(lease_seconds),
            standing=Standing.IN_FLIGHT,
            declared=declared_text(effect, tuple(refusals)),
        )

    def take_over(
        self, effect: Effect[Any, Any], pk: str, found: Intent, lease_seconds: float
    ) -> Intent:
        """Make this delivery the owner of a pending effect, if it may be called again.

        Raises:
            InFlight: its owner may still be running, or another delivery took it over first.
            EffectUnknown: it may have happened, and must not be called again.
            Unanswered: DynamoDB did not confirm the takeover.
        """
        fresh = found.standing is Standing.NOT_DONE
        if not fresh:
            self._check(effect, found)
        mine = msgspec.structs.replace(
            found,
            owner=uuid4().hex,
            lease_until=self._lease(lease_seconds),
            standing=Standing.IN_FLIGHT,
            key_expires_at=self._key_expiry(effect) if fresh else found.key_expires_at,
        )
        try:
            self._change(pk, found, mine)
        except Unanswered:
            if fresh:  # this delivery may own it now, and has made no call
                self.hand_back(pk, mine, Standing.NOT_DONE)
            raise
        return mine

    def renew_key(self, effect: Effect[Any, Any], pk: str, mine: Intent) -> Intent:
        """Replace a provider key that returns a saved error only.

        Call it only after a look-up that found nothing done under the old key.

        Raises:
            InFlight: another delivery took the effect over.
            Unanswered: DynamoDB did not confirm the new key.
        """
        renewed = msgspec.structs.replace(
            mine,
            provider_key=mine.next_key,
            key_expires_at=self._key_expiry(effect),
            owner=uuid4().hex,  # fences a takeover that read the old key
        )
        self._change(pk, mine, renewed)
        return renewed

    def hand_back(
        self, pk: str, mine: Intent, standing: Standing, outcome: str | None = None
    ) -> bool:
        """Release an effect, so that the next delivery need not wait for the end of the lease.

        A failure is logged: the lease ends by itself, and the effect then counts as unknown. If the
        effect is settled, the kept form of its outcome is stored. Returns False if DynamoDB did not
        confirm it.
        """
        summary, released = "", msgspec.structs.replace(mine, standing=standing, outcome=outcome)
        for _ in range(_HAND_BACKS):
            try:
                self._change(pk, mine, released)
            except InFlight:
                return True  # its owner has changed, or an unanswered attempt has handed it back
            except Unanswered as failure:
                summary = failure.summary
            else:
                return True
        extra = {"key_hash": key_hash(pk), "error": summary}
        self.logger.warning("effect not handed back", extra=extra)
        return False

    def check_ended(self, found: Intent) -> None:
        """Check that the owner of an effect has ended, by any function's clock.

        Raises:
            InFlight: it may still be calling.
        """
        self._check_lease(found, self.margin_seconds)

    def _check(self, effect: Effect[Any, Any], found: Intent) -> None:
        # While the provider remembers the key, an early takeover is harmless: the provider answers
        # both calls alike, and the owner's token fences the completion. Without a key, an early
        # takeover would call twice, or declare an effect unknown that its owner is calling.
        if effect.policy is Policy.PROVIDER_KEY and self._is_remembered(found):
            self._check_lease(found, margin=0)
            return
        self.check_ended(found)
        if effect.policy is Policy.AT_MOST_ONCE:
            raise EffectUnknown(
                f"the effect {effect.name!r} may have happened, and is done at most once: find out "
                "outside whether it did"
            )
        if found.key_expires_at is not None and not self._is_remembered(found):
            raise EffectUnknown(
                f"the effect {effect.name!r} may have happened, and the provider may have "
                f"forgotten the key {found.provider_key}: look it up there"
            )

    def _check_lease(self, found: Intent, margin: float) -> None:
        remaining = found.lease_until / _MILLISECONDS + margin - self.clock()
        if found.standing is Standing.IN_FLIGHT and remaining > 0:
            raise InFlight(
                f"another delivery is at the effect {found.effect!r} for at most {remaining:.0f} s "
                f"more, under the provider key {found.provider_key}: its record tells its end",
                remaining,
            )

    def _is_remembered(self, found: Intent) -> bool:
        expiry = found.key_expires_at
        return expiry is not None and self.clock() + self.margin_seconds < expiry

    def _key_expiry(self, effect: Effect[Any, Any]) -> int | None:
        if effect.policy is not Policy.PROVIDER_KEY:
            return None
        return int(self.clock()) + effect.key_lifetime_seconds

    def _lease(self, seconds: float) -> int:
        return int((self.clock() + seconds) * _MILLISECONDS)

    def _change(self, pk: str, before: Intent, after: Intent) -> None:
        update = pending_update(self.table, pk, before, after)
        try:
            self.client.transact_write_items(TransactItems=[{"Update": update}])
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            response: Any = error.response if isinstance(error, ClientError) else {}
            codes = [reason["Code"] for reason in response.get("CancellationReasons", [])]
            if "ConditionalCheckFailed" in codes:
                raise InFlight(f"another delivery took over {before.effect!r}", 0) from None
            codes.append(response.get("Error", {}).get("Code"))
            text = "the pending record could not be changed"
            if not THROTTLING.isdisjoint(codes):
                raise ChangeThrottled(f"{text}: DynamoDB throttled it") from None
            raise Unanswered(f"{text}: {summary_of(error)}") from None
