"""Effect ledger: changes pending records, each change fenced by the owner's token.

A takeover changes the token. The condition of every later change by the previous owner then fails,
so it neither calls nor writes any more. Each change is a transaction of one action, because the
function's role allows writes only inside transactions.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from once.effects.declaration import Effect, Policy
from once.effects.intent import Intent, pending_update
from once.errors import EffectUnknown, InFlight, Unanswered, summary_of
from once.events.identity import key_hash
from once.names import Standing

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_dynamodb import DynamoDBClient

_MILLISECONDS = 1000
_HAND_BACKS = 3


class EffectLedger:
    """Opens, takes over and hands back the effects of one consumer.

    The pending records are in the table of dedup records. The clocks of two functions may differ by
    the margin.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        clock: Callable[[], float],
        logger: "Logger",
        margin_seconds: float,
    ) -> None:
        self._client = client
        self._table = table
        self._margin = margin_seconds
        self._clock = clock
        self._logger = logger

    def open(self, effect: Effect, request: bytes, pk: str, lease_seconds: float) -> Intent:
        """Return the intent to commit before the first call.

        The provider key derives from the event's key, so it is the same even if the record is lost.
        The lease ends when this function has ended, and is stored by its clock; the function that
        reads it adds the margin for its own.
        """
        return Intent(
            effect=effect.name,
            provider_key=f"once-{key_hash(pk)}-{effect.name}-1",
            request=request,
            key_expires_at=self._key_expiry(effect),
            owner=uuid4().hex,
            lease_until=self._lease(lease_seconds),
            standing=Standing.IN_FLIGHT,
        )

    def take_over(self, effect: Effect, pk: str, found: Intent, lease_seconds: float) -> Intent:
        """Make this delivery the owner of a pending effect, if it may be called again.

        Raises:
            InFlight: its owner may still be running, or another delivery took it over first.
            EffectUnknown: it may have happened, and must not be called again.
            Unanswered: DynamoDB did not confirm the takeover.
        """
        fresh = found.standing is Standing.NOT_DONE
        if not fresh:
            self._check(effect, found)
        mine = replace(
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

    def renew_key(self, effect: Effect, pk: str, mine: Intent) -> Intent:
        """Replace a provider key that returns a saved error only.

        Call it only after a look-up that found nothing done under the old key.

        Raises:
            InFlight: another delivery took the effect over.
            Unanswered: DynamoDB did not confirm the new key.
        """
        renewed = replace(
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
        summary, released = "", replace(mine, standing=standing, outcome=outcome)
        for _ in range(_HAND_BACKS):
            try:
                self._change(pk, mine, released)
            except InFlight:
                return True  # its owner has changed, or an unanswered attempt has handed it back
            except Unanswered as failure:
                summary = failure.summary
            else:
                return True
        self._logger.warning("effect not handed back", extra={"error": summary})
        return False

    def check_ended(self, found: Intent) -> None:
        """Check that the owner of an effect has ended, by any function's clock.

        Raises:
            InFlight: it may still be calling.
        """
        self._check_lease(found, self._margin)

    def _check(self, effect: Effect, found: Intent) -> None:
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
        remaining = found.lease_until / _MILLISECONDS + margin - self._clock()
        if found.standing is Standing.IN_FLIGHT and remaining > 0:
            raise InFlight(
                f"another delivery is at the effect {found.effect!r} for at most {remaining:.0f} s "
                f"more, under the provider key {found.provider_key}: its record tells its end",
                remaining,
            )

    def _is_remembered(self, found: Intent) -> bool:
        expiry = found.key_expires_at
        return expiry is not None and self._clock() + self._margin < expiry

    def _key_expiry(self, effect: Effect) -> int | None:
        if effect.policy is not Policy.PROVIDER_KEY:
            return None
        return int(self._clock()) + effect.key_lifetime_seconds

    def _lease(self, seconds: float) -> int:
        return int((self._clock() + seconds) * _MILLISECONDS)

    def _change(self, pk: str, before: Intent, after: Intent) -> None:
        update = pending_update(self._table, pk, before, after)
        try:
            self._client.transact_write_items(TransactItems=[{"Update": update}])
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            response: Any = error.response if isinstance(error, ClientError) else {}
            codes = [reason["Code"] for reason in response.get("CancellationReasons", [])]
            if "ConditionalCheckFailed" in codes:
                raise InFlight(f"another delivery took over {before.effect!r}", 0) from None
            raise Unanswered(
                f"the pending record could not be changed: {summary_of(error)}"
            ) from None
