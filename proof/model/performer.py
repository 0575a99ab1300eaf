"""An effect's turn, call by call: as `once.effects.executor` and `once.effects.ledger` have it."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from proof.model.calls import (
    DONE,
    REFUSED,
    SILENCE,
    SPENT,
    Change,
    Charge,
    Event,
    Found,
    Intent,
    LookUp,
    Standing,
)

Steps = Generator[Any, Any, Any]
MAX_CALLS = 2
"""In one invocation. The library makes three: as many as two faults cannot spoil."""
_HAND_BACKS = 2


class Failed(Exception):
    """What a message ends in where it has no outcome.

    Args:
        reason: for its dead letter.
        permanent: whether trying again cannot help.
        after: the owner whose end is to be waited for.
    """

    def __init__(self, reason: str, *, permanent: bool = False, after: str = "") -> None:
        self.reason, self.permanent, self.after = reason, permanent, after
        super().__init__(reason)


RETRIES_EXHAUSTED = "retries-exhausted"
EFFECT_UNKNOWN = "effect-unknown"
KEY_CONFLICT = "key-conflict"


class Unanswered(Failed):
    """An effect's outcome, or its record's, is not known."""

    def __init__(self) -> None:
        super().__init__(RETRIES_EXHAUSTED)


class NotDone(Failed):
    """An effect certainly did not happen."""

    def __init__(self) -> None:
        super().__init__(RETRIES_EXHAUSTED)


@dataclass(slots=True)
class Turn:
    """A delivery's turn at an effect; `clean` where the provider has certainly done nothing."""

    event: Event
    key: str
    intent: Intent
    clean: bool


class Performer:
    """Performs the effects of one invocation.

    Args:
        owners: names for the turns of this function, each a new one.
        day: on which it runs.
    """

    def __init__(self, owners: Iterator[str], day: int) -> None:
        self._owners = owners
        self._day = day

    def open(self, key: str) -> Intent:
        """Return the intent that is committed before the first call."""
        return Intent(next(self._owners), f"{key}-1", self._day + 1, Standing.IN_FLIGHT)

    def resume(self, event: Event, key: str, found: Found) -> Steps:
        """Take over an effect that an earlier delivery left pending, and return the turn."""
        intent = found.record.intent
        assert intent is not None  # noqa: S101
        if self._under_way(intent, found.leased):
            raise Failed(RETRIES_EXHAUSTED, after=intent.owner.partition("/")[0])
        fresh = intent.standing is Standing.NOT_DONE
        if not fresh:
            self._check_policy(event, intent)
        expires = self._day + 1 if fresh else intent.expires
        mine = Intent(next(self._owners), intent.provider_key, expires, Standing.IN_FLIGHT)
        turn = Turn(event, key, mine, clean=fresh)
        try:
            yield from self._change(key, intent, mine)
        except Unanswered:
            if fresh:
                yield from self.give_up(turn)
            raise
        return turn

    def outcome(self, turn: Turn) -> Steps:
        """Call until there is an outcome."""
        for attempt in range(MAX_CALLS):
            try:
                yield from self._call(turn)
            except (NotDone, Unanswered):
                if attempt + 1 == MAX_CALLS:
                    raise
            else:
                return

    def give_up(self, turn: Turn) -> Steps:
        """Leave an effect without its outcome to a later delivery."""
        standing = Standing.NOT_DONE if turn.clean else Standing.UNKNOWN
        for _ in range(_HAND_BACKS):
            try:
                yield from self._change(
                    turn.key, turn.intent, turn.intent._replace(standing=standing)
                )
            except Unanswered:
                continue
            except Failed:
                return
            return

    def _under_way(self, intent: Intent, leased: bool) -> bool:
        return intent.standing is Standing.IN_FLIGHT and leased

    def _check_policy(self, event: Event, intent: Intent) -> None:
        if event.effect == "mail" or self._day >= intent.expires:
            raise Failed(EFFECT_UNKNOWN, permanent=True)

    def _call(self, turn: Turn) -> Steps:
        clean, turn.clean = turn.clean, False
        reply = yield Charge(turn.event, turn.intent.provider_key)
        if reply == REFUSED:
            turn.clean = clean
            raise NotDone
        if reply == SPENT:
            yield from self._look_up(turn)
        elif reply != DONE:
            raise self._unanswered(turn)

    def _look_up(self, turn: Turn) -> Steps:
        """A saved error is no outcome: the provider is asked, and then the key is a new one."""
        charged = yield LookUp(turn.event)
        if charged == SILENCE:
            raise self._unanswered(turn)
        if charged:
            return
        yield from self._renew_key(turn)
        turn.clean = True
        raise NotDone

    def _renew_key(self, turn: Turn) -> Steps:
        stem, _, number = turn.intent.provider_key.rpartition("-")
        renewed = turn.intent._replace(
            owner=next(self._owners),
            provider_key=f"{stem}-{int(number) + 1}",
            expires=self._day + 1,
        )
        yield from self._change(turn.key, turn.intent, renewed)
        turn.intent = renewed

    def _unanswered(self, turn: Turn) -> Failed:
        if turn.event.effect == "mail":
            return Failed(EFFECT_UNKNOWN, permanent=True)
        return Unanswered()

    def _change(self, key: str, before: Intent, after: Intent) -> Steps:
        reply = yield Change(key, before, after)
        if reply == DONE:
            return
        if reply == SILENCE:
            raise Unanswered
        raise Failed(RETRIES_EXHAUSTED)
