"""Consumers with a broken effect: each is the real one but for what its name says."""

from proof.model.calls import Charge, Claim, Event, Found, Intent
from proof.model.consumer import Consumer, Course
from proof.model.performer import NotDone, Performer, Steps, Turn
from proof.model.services import ANYBODY


class NoFence(Consumer):
    """An effect's outcome is written down by whoever has one."""

    def _complete(self, course: Course, turn: Turn) -> Claim:
        return super()._complete(course, turn)._replace(owned=ANYBODY)


class _FreshKey(Performer):
    def _call(self, turn: Turn) -> Steps:
        turn.intent = turn.intent._replace(provider_key=f"{next(self._owners)}-1")
        yield from super()._call(turn)


class FreshProviderKey(Consumer):
    """Every attempt has a provider key of its own."""

    performer = _FreshKey


class _FailedCallIsDone(Performer):
    def _call(self, turn: Turn) -> Steps:
        yield Charge(turn.event, turn.intent.provider_key)


class FailedCallIsDone(Consumer):
    """A call counts as done once it was made."""

    performer = _FailedCallIsDone


class _KeyForEver(Performer):
    def _check_policy(self, event: Event, intent: Intent) -> None:
        super()._check_policy(event, intent._replace(expires=self._day + 1))


class KeyForEver(Consumer):
    """The provider is trusted to remember its keys."""

    performer = _KeyForEver


class _ResumedIsClean(Performer):
    def resume(self, event: Event, key: str, found: Found) -> Steps:
        turn = yield from super().resume(event, key, found)
        turn.clean = True
        return turn


class ResumedIsClean(Consumer):
    """Who takes an effect over forgets that it may have happened before."""

    performer = _ResumedIsClean


class _NoLookUp(Performer):
    def _look_up(self, turn: Turn) -> Steps:
        yield from self._renew_key(turn)
        raise NotDone


class NoLookUp(Consumer):
    """A saved error is taken for "nothing was done"."""

    performer = _NoLookUp


class _NoLease(Performer):
    def _under_way(self, _: Intent, __: bool) -> bool:
        return False


class NoLease(Consumer):
    """Who finds an effect pending does not ask whether its owner is still at it."""

    performer = _NoLease


class _NeverInDoubt(Performer):
    def give_up(self, turn: Turn) -> Steps:
        turn.clean = True
        yield from super().give_up(turn)


class NeverInDoubt(Consumer):
    """An effect that brought no outcome is handed back as not done."""

    performer = _NeverInDoubt
