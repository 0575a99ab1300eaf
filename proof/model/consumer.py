"""One invocation of a consumer, call by call, as `once.batch` and `once.commit` have it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from proof.model.calls import (
    DONE,
    SILENCE,
    Answer,
    Claim,
    Commit,
    Delivery,
    Event,
    Failure,
    Intent,
    Quarantine,
    Read,
    Record,
    Reply,
)
from proof.model.judge import (
    AGAIN,
    BUSY,
    COMMITTED,
    CONFLICT,
    DUPLICATE,
    INNOCENT,
    LOST,
    NEW,
    PENDING,
    REFUSAL,
    Judge,
    Verdict,
)
from proof.model.performer import KEY_CONFLICT, RETRIES_EXHAUSTED, Failed, Performer, Steps, Turn

NEVER = 99
"""A day that does not come: a pending record has no expiry."""
MAX_ATTEMPTS = 2
"""To commit, in one invocation. The library makes eleven; two faults are to exhaust these."""


class Invocation(NamedTuple):
    """What Lambda starts a consumer's function with, and on which day."""

    day: int
    deliveries: tuple[Delivery, ...]


@dataclass(slots=True, eq=False)
class Course:
    """A message on its way through the invocation."""

    delivery: Delivery
    known: Verdict | None = None
    claim: Claim | None = None
    done: bool = False
    failed: Failed | None = None
    turn: Turn | None = None
    attempts: int = 0
    alone: bool = False

    @property
    def event(self) -> Event:
        """What the message says."""
        return self.delivery.event


class Consumer(Judge):
    """The real protocol. Broken ones change a method of it.

    Args:
        name: the function's.
        invocation: what it is started with.
    """

    performer = Performer
    window = NEVER - 1

    def __init__(self, name: str, invocation: Invocation) -> None:
        self._commits = (f"{name}/{number}" for number in count(1))
        self._day = invocation.day
        self._courses = [Course(delivery) for delivery in invocation.deliveries]
        self._performer = self.performer(self._commits, self._day)

    def run(self) -> Steps:
        """Settle every message, and answer Lambda."""
        failures: list[Failure] = []
        yield from self._look_first()
        line, committed = list(self._courses), dict[str, str]()
        while line:
            going = self._going(line)
            yield from self._round([c for c in going if not self._foregone(c, committed)])
            for course in [c for c in going if c.done or c.failed]:
                line.remove(course)
                if course.done:
                    committed[self.key(course)] = course.event.content
                failures += yield from self._failure(course)
        yield Answer(tuple(failures))

    def key(self, course: Course) -> str:
        """Return the key of a message's dedup record."""
        return course.event.key

    def _look_first(self) -> Steps:
        again = [c for c in self._courses if c.delivery.receives > 1]
        if not again or len(self._courses) == 1:
            return
        reply = yield Read(tuple(dict.fromkeys(self.key(c) for c in again)))
        if reply != SILENCE:
            found = dict(zip(dict.fromkeys(self.key(c) for c in again), reply, strict=True))
            for course in again:
                course.known = self.verdict_on(self._handled(course), found[self.key(course)])

    def _going(self, line: Sequence[Course]) -> list[Course]:
        """One of each key; a last chance is taken first, and alone."""
        free = {self.key(course): course for course in reversed(line)}
        going = [course for course in line if free[self.key(course)] is course]
        last = [c for c in going if c.delivery.last and not c.attempts and c.known is None]
        return last[:1] or going

    def _foregone(self, course: Course, committed: dict[str, str]) -> bool:
        """Whether an earlier message of the batch has decided."""
        content = committed.get(self.key(course))
        course.done = content == course.event.content
        if content is not None and not course.done:
            course.failed = Failed(KEY_CONFLICT, permanent=True)
        return content is not None

    def _round(self, going: Sequence[Course]) -> Steps:
        """Commit together what is about disjoint rows."""
        group: list[Course] = []
        for course in going:
            yield from self._begin(course)
            if course.claim is not None and self._joins(course, group):
                group.append(course)
        if not group:
            return
        claims = tuple(course.claim for course in group if course.claim is not None)
        reply = yield Commit(claims)
        verdicts = yield from self._verdicts(claims, reply)
        for course, claim, verdict in zip(group, claims, verdicts, strict=True):
            yield from self._advance(course, claim, verdict)

    def _joins(self, course: Course, group: Sequence[Course]) -> bool:
        items = {other.claim.item for other in group if other.claim is not None} - {""}
        alone = course.alone or any(other.alone for other in group)
        return not group or not (alone or (course.claim and course.claim.item in items))

    def _begin(self, course: Course) -> Steps:
        if course.claim is None:
            claim = self._handled(course)
            yield from self._take(course, claim, course.known or Verdict(NEW))

    def _handled(self, course: Course) -> Claim:
        """What the handler writes: for an effect its intent alone."""
        key = self.key(course)
        if not course.event.effect:
            return self._claim(course, key)
        return self._claim(course, key, intent=self._performer.open(key))

    def _claim(self, course: Course, key: str, *, intent: Intent | None = None) -> Claim:
        expires = NEVER if intent else self._day + self.window
        record = Record(self.fingerprint(course.event), next(self._commits), intent, expires)
        return Claim(course.event, key, record, publishes=intent is None)

    def fingerprint(self, event: Event) -> str:
        """Return what must not differ between two deliveries under one key."""
        return event.content

    def _verdicts(self, claims: Sequence[Claim], reply: Reply) -> Steps:
        """One for each claim; of a commit without an answer, what the records say."""
        if reply == DONE:
            return [Verdict(COMMITTED)] * len(claims)
        if reply != SILENCE:
            return self.judge_each(claims, reply)
        found = yield Read(tuple(claim.key for claim in claims))
        if found == SILENCE:
            return [Verdict(LOST)] * len(claims)
        pairs = zip(claims, found, strict=True)
        return [self.verdict_on(claim, one) or Verdict(BUSY) for claim, one in pairs]

    def _advance(self, course: Course, claim: Claim, verdict: Verdict) -> Steps:
        course.alone = course.alone or verdict.kind == AGAIN
        if verdict.kind in (AGAIN, BUSY):
            course.attempts += 1
            if course.attempts == MAX_ATTEMPTS:
                yield from self._end(course, Failed(RETRIES_EXHAUSTED))
        elif verdict.kind != INNOCENT:
            yield from self._take(course, claim, verdict)

    def _take(self, course: Course, claim: Claim, verdict: Verdict) -> Steps:
        course.claim = None
        try:
            course.claim = yield from self._next(course, claim, verdict)
            course.done = course.claim is None
        except Failed as failed:
            yield from self._end(course, failed)

    def _end(self, course: Course, failed: Failed) -> Steps:
        course.claim, course.failed = None, failed
        if course.turn is not None:
            yield from self._performer.give_up(course.turn)

    def _next(self, course: Course, claim: Claim, verdict: Verdict) -> Steps:
        """Return what is to be committed next, or None where the message is done."""
        if verdict.kind == COMMITTED and claim.record.intent:
            turn = Turn(course.event, claim.key, claim.record.intent, clean=True)
            return (yield from self._perform(course, turn))
        if verdict.kind in (COMMITTED, DUPLICATE):
            return None
        if verdict.kind == PENDING and verdict.found:
            course.turn = None
            turn = yield from self._performer.resume(course.event, claim.key, verdict.found)
            return (yield from self._perform(course, turn))
        if verdict.kind == REFUSAL:
            answer = claim.record._replace(commit=next(self._commits))
            return claim._replace(record=answer, refused=True)
        if verdict.kind in (CONFLICT, LOST):
            conflict = verdict.kind == CONFLICT
            raise Failed(KEY_CONFLICT if conflict else RETRIES_EXHAUSTED, permanent=conflict)
        return claim

    def _perform(self, course: Course, turn: Turn) -> Steps:
        course.turn = turn
        yield from self._performer.outcome(turn)
        course.attempts = 0
        return self._complete(course, turn)

    def _complete(self, course: Course, turn: Turn) -> Claim:
        return self._claim(course, turn.key)._replace(owned=turn.intent.owner)

    def _failure(self, course: Course) -> Steps:
        """Dead-letter what is over, and return what is to come again."""
        failed, delivery = course.failed, course.delivery
        if failed is None:
            return []
        if (failed.permanent or delivery.last) and (yield from self._quarantined(delivery, failed)):
            return []
        return [Failure(delivery.message, failed.after)]

    def _quarantined(self, delivery: Delivery, failed: Failed) -> Steps:
        reply = yield Quarantine(delivery.message, delivery.event, failed.reason)
        return reply == DONE
