"""Consumers with a broken commit: each is the real one but for what its name says."""

from collections.abc import Sequence

from proof.model.calls import (
    DONE,
    SILENCE,
    Answer,
    Claim,
    Commit,
    Delivery,
    Event,
    Found,
    Intent,
    Publish,
    Quarantine,
    Read,
    Reasons,
    Reply,
    Write,
)
from proof.model.consumer import Consumer, Course
from proof.model.judge import COMMITTED, DUPLICATE, LOST, Verdict
from proof.model.performer import RETRIES_EXHAUSTED, Failed, Steps


class _InSteps(Consumer):
    """Writes record and row one after the other, message by message."""

    def _round(self, going: Sequence[Course]) -> Steps:
        for course in going:
            try:
                yield from self._work(course)
                course.done = True
            except Failed as failed:
                course.failed = failed

    def _work(self, course: Course) -> Steps:
        raise NotImplementedError

    def _found(self, course: Course) -> Steps:
        reply = yield Read((self.key(course),))
        if reply == SILENCE:
            raise Failed(RETRIES_EXHAUSTED)
        return reply[0]

    def _mark(self, course: Course, intent: Intent | None = None, owned: str = "") -> Steps:
        """Write the record alone, and tell whether its key was free."""
        claim = self._claim(course, self.key(course), intent=intent)
        reply = yield Commit((claim._replace(bare=True, owned=owned),))
        if reply == DONE or (reply != SILENCE and isinstance(reply[0].record, Found)):
            return reply == DONE
        raise Failed(RETRIES_EXHAUSTED)


class ClaimThenEffect(_InSteps):
    """The record first, and then the row."""

    def _work(self, course: Course) -> Steps:
        if (yield from self._mark(course)):
            yield Write(course.event)


class EffectThenMark(_InSteps):
    """The row first, and then the record."""

    def _work(self, course: Course) -> Steps:
        if (yield from self._found(course)) is None:
            yield Write(course.event)
            yield from self._mark(course)


class Lease(_InSteps):
    """The record as a lease, then the row, then the record as done; a lease that ended is free."""

    def _work(self, course: Course) -> Steps:
        found = yield from self._found(course)
        before = found.record.intent.owner if found and found.record.intent else ""
        if found and not before:
            return
        if found and found.leased:
            raise Failed(RETRIES_EXHAUSTED, after=before.partition("/")[0])
        mine = self._performer.open(self.key(course))
        if not (yield from self._mark(course, mine, before)):
            raise Failed(RETRIES_EXHAUSTED)
        yield Write(course.event)
        yield from self._mark(course, owned=mine.owner)


class AckFirst(Consumer):
    """Lambda is answered before anything is done."""

    def run(self) -> Steps:
        """Answer, and then work."""
        yield Answer(())
        yield from super().run()


class CancelIsFailure(Consumer):
    """A cancelled commit is an error, whatever cancelled it."""

    def judge(self, _: Claim, __: Reasons) -> Verdict:
        """Leave it to a later delivery."""
        return Verdict(LOST)


class CancelIsDuplicate(Consumer):
    """A cancelled commit is a duplicate, whatever cancelled it."""

    def judge(self, _: Claim, __: Reasons) -> Verdict:
        """Take it for done."""
        return Verdict(DUPLICATE)


class OneReasonForAll(Consumer):
    """The reasons are not read by their index."""

    def judge_each(self, claims: Sequence[Claim], reasons: Sequence[Reasons]) -> list[Verdict]:
        """Take a neighbour's duplicate for everybody's."""
        verdicts = super().judge_each(claims, reasons)
        return [Verdict(DUPLICATE)] * len(claims) if Verdict(DUPLICATE) in verdicts else verdicts


class UnknownIsDone(Consumer):
    """A commit without an answer is taken for done."""

    def _verdicts(self, claims: Sequence[Claim], reply: Reply) -> Steps:
        if reply == SILENCE:
            return [Verdict(COMMITTED)] * len(claims)
        return (yield from super()._verdicts(claims, reply))


class InlinePublish(Consumer):
    """The consumer publishes by itself, after its commit."""

    def _claim(self, course: Course, key: str, *, intent: Intent | None = None) -> Claim:
        return super()._claim(course, key, intent=intent)._replace(publishes=False)

    def _next(self, course: Course, claim: Claim, verdict: Verdict) -> Steps:
        following = yield from super()._next(course, claim, verdict)
        if verdict.kind == COMMITTED and following is None:
            yield Publish((claim.key,))
        return following


class NoFingerprint(Consumer):
    """What is under a known key is a duplicate, whatever it says."""

    def fingerprint(self, _: Event) -> str:
        """Leave the content out."""
        return ""


class MessageIdAsKey(Consumer):
    """The key is SQS's, and not the event's."""

    def key(self, course: Course) -> str:
        """Return what another copy of the event does not share."""
        return course.delivery.message


class ShortWindow(Consumer):
    """The key is remembered for less long than a message lives, as by a TTL of hours."""

    window = 1


class UnsentLetter(Consumer):
    """A dead letter counts as sent, whatever SQS says."""

    def _quarantined(self, delivery: Delivery, failed: Failed) -> Steps:
        yield Quarantine(delivery.message, delivery.event, failed.reason)
        return True
