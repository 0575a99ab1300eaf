"""From a message to its result: run the handler, and do what the verdict on its commit asks for."""

from collections.abc import Callable, Sequence

from once.batch.handler_runner import Runner, Step, refused_twice
from once.batch.message_state import Course
from once.batch.metrics import Meter
from once.commit.committer import Committer
from once.commit.request import Claim
from once.commit.result import Kind, Verdict
from once.effects.executor import Performer, Turn
from once.errors import (
    Contention,
    EffectUnknown,
    InFlight,
    InvalidData,
    OnceError,
    OutcomeUnknown,
    OutOfTime,
    Refusal,
    Suspended,
    Unexpected,
    Unfinished,
)
from once.fate import Fate
from once.handlers.intent import Intent
from once.handlers.transaction import Transaction
from once.intake.reader import Task
from once.schema import Standing

_MAX_ATTEMPTS = 11
"""With full jitter, seconds of contention: past that the queue is the better place to wait."""

_IN_VAIN = {Kind.CONTENDED, Kind.STALE, Kind.BUSY}
_AGAIN_AS_IT_IS = {Kind.CONTENDED, Kind.BUSY, Kind.INNOCENT, Kind.UNNAMED}

Next = Step | Fate


class Settler:
    """Takes courses from step to step. Nothing that it meets is raised: errors are results.

    Args:
        committer: the way into DynamoDB.
        runner: the consumer's functions.
        performer: the consumer's effects.
        meter: counts what became of them.
    """

    def __init__(
        self, committer: Committer, runner: Runner, performer: Performer, meter: Meter
    ) -> None:
        self._committer = committer
        self._runner = runner
        self._performer = performer
        self._meter = meter

    def recall(self, courses: Sequence[Course]) -> None:
        """Ask for the dedup records of courses, at most a hundred.

        It is a precaution: without an answer nothing is known of them.
        """
        asked = [(c, c.delivery.work) for c in courses if isinstance(c.delivery.work, Task)]
        try:
            verdicts = self._committer.recall([self._runner.empty(task) for _, task in asked])
        except OutcomeUnknown:
            return
        for (course, _), verdict in zip(asked, verdicts, strict=True):
            course.known = verdict

    def begin(self, course: Course) -> None:
        """Take the first step: what is known of the event already, or else its handler."""
        self._take(course, lambda: self._begun(course, course.delivery.work))

    def again(self, course: Course) -> None:
        """Decide anew on what has changed; what was called is not called again."""
        course.outdated = False
        self._take(course, lambda: self._anew(course))

    def advance(self, course: Course, claim: Claim, verdict: Verdict) -> None:
        """Take the step that follows from the verdict on a course's claim."""
        if verdict.kind in _IN_VAIN:
            course.attempts += 1
            if course.attempts == _MAX_ATTEMPTS:
                self._end(course, _contention())
                return
        if verdict.kind not in _AGAIN_AS_IT_IS:
            self._take(course, lambda: self._next(course, claim.transaction, verdict))

    def suspend(self, course: Course) -> None:
        """End a course that would only be tried in vain."""
        self._end(course, Suspended("what the consumer depends on is down"))

    def give_up(self, course: Course) -> None:
        """End a course whose message ended, or never reached, the function in each delivery."""
        self._end(course, _unfinished(course))

    def stop(self, course: Course) -> None:
        """End a course for which there is no time left."""
        if course.attempts:
            self._end(course, _contention())
        else:
            self._end(course, OutOfTime("the invocation's time was up before the message's turn"))

    def _take(self, course: Course, step: Callable[[], Next]) -> None:
        course.claim = None
        try:
            following = step()
            if isinstance(following, Transaction):
                course.claim = self._committer.claim(following)
                return
        except OnceError as error:
            following = error
        except Exception as error:  # one message never takes its neighbours along
            following = Unexpected(error)
        self._end(course, following)

    def _end(self, course: Course, result: Fate | OnceError) -> None:
        course.claim, course.result = None, result
        if course.effect is not None and isinstance(result, OnceError):
            self._performer.give_up(course.effect)
            self._meter.effect_given_up(clean=course.effect.clean)

    def _begun(self, course: Course, work: Task | OnceError) -> Next:
        if isinstance(work, OnceError):
            return work
        if course.known is not None:
            return self._next(course, self._runner.empty(work), course.known)
        return self._handle(course)

    def _handle(self, course: Course) -> Next:
        step = self._runner.handle(course.task)
        if isinstance(step, OnceError):
            return self._unless_known(course, step)
        self._performer.intend(step)
        return step

    def _unless_known(self, course: Course, error: OnceError) -> Next:
        """A handler may fail on what its own commit changed: the record decides, not the error."""
        transaction = self._runner.empty(course.task)
        [known] = self._committer.recall([transaction])
        return error if known is None else self._next(course, transaction, known)

    def _next(self, course: Course, done: Transaction, verdict: Verdict) -> Next:
        match verdict:
            case Verdict(Kind.COMMITTED):
                if done.intent is not None:
                    return self._perform(course, self._performer.begin(done, done.intent))
                return Fate.COMMITTED if done.refusal is None else Fate.REFUSED
            case Verdict(Kind.DUPLICATE):
                return Fate.DUPLICATE
            case Verdict(Kind.PENDING, intent=Intent() as found):
                if found.standing is not Standing.NOT_DONE:
                    self._meter.effect_found(verdict.since)
                return self._resume(course, done, found)
            case Verdict(Kind.REFUSED, Refusal() as refusal):
                if done.refusal is not None:
                    return refused_twice(refusal)
                return self._runner.refuse(course.task, done.refused(refusal, keep_reads=False))
            case Verdict(Kind.FAILED, OnceError() as error):
                return error
            case Verdict(Kind.STALE):
                return self._anew(course)
            case _:
                return done

    def _resume(self, course: Course, done: Transaction, found: Intent) -> Next:
        if not course.is_readable:
            return _unresumable(course, found)
        course.effect = None  # if it had one, someone else has it now
        return self._perform(course, self._performer.resume(done, found))

    def _perform(self, course: Course, turn: Turn) -> Next:
        course.effect = turn
        course.outcome = self._performer.outcome(turn)
        self._meter.effect_done()
        course.attempts = 0  # what was done outside deserves all attempts to be written down
        return self._runner.complete(course.task, turn.intent, course.outcome)

    def _anew(self, course: Course) -> Next:
        if course.effect is None:
            return self._handle(course)
        return self._runner.complete(course.task, course.effect.intent, course.outcome)


def _unfinished(course: Course) -> Unfinished:
    deliveries = course.delivery.receive_count - 1
    said = f"the function died, timed out or was throttled in each of its {deliveries} deliveries"
    if course.known is None or course.known.intent is None:
        return Unfinished(said)
    intent = course.known.intent
    return Unfinished(
        f"{said}; its effect {intent.effect!r} is pending under the provider key "
        f"{intent.provider_key}: find out outside whether it was done"
    )


def _unresumable(course: Course, found: Intent) -> OnceError:
    """Why a pending effect is not resumed whose outcome this message's data could not complete."""
    error: InvalidData = course.task.data
    if found.standing is Standing.NOT_DONE:
        return error
    if found.standing is Standing.IN_FLIGHT and not course.last_chance:
        return InFlight(0)  # its owner, which has read the data, may be at it
    return EffectUnknown(f"the effect {found.effect!r} may have happened, and {error}")


def _contention() -> Contention:
    return Contention("others kept changing the same items until the time was up")
