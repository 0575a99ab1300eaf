"""Effect executor: calls an effect, and repeats a call only if policy and provider allow it.

An outcome is kept as JSON in the pending record if its commit fails, or if an operator found it
out. The next delivery commits it without another call. Each outcome that a provider returns is
compared with the form in which it would be kept; otherwise only a recovery would find the mistake.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import formatannotation, isawaitable
from types import FunctionType
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from once.effects.concurrent_calls import awaited
from once.effects.declaration import Call, Effect, Policy
from once.effects.ledger import EffectLedger, Intent
from once.errors import (
    EffectUnknown,
    InFlight,
    InvalidWrite,
    KeyConflict,
    KeySpent,
    NotDone,
    OnceError,
    OutOfTime,
    PermanentError,
    Refusal,
    Unanswered,
    Unexpected,
    UnhandledRefusal,
    WrongOutcome,
)
from once.events.cloud_event import fault_text
from once.events.models import model_of
from once.names import OUTCOME_BYTES, DeadLetterAttribute, Standing
from once.runtime.deadline import Deadline

Within = Callable[[Callable[[], None]], object]
"""Runs a call within the consumer's hooks."""

_MAX_CALLS = 3
"""Calls in one invocation; after that the message is retried from the queue."""


class EffectAttempt(Struct):
    """A delivery's attempt at an effect. Only the executor writes it.

    Attributes:
        intent: the effect's intent, which this delivery owns, or which is settled.
        clean: whether the provider has certainly done nothing so far.
        is_done: whether there is an outcome, which may be a Refusal.
    """

    pk: str
    effect: Effect[Any, Any]
    intent: Intent
    deadline: Deadline
    clean: bool
    is_done: bool = False
    outcome: Any = None


@dataclass
class EffectExecutor:
    """Executes the effects of one consumer, which it has by name.

    A refusal is restored as one of the classes that the consumer answers with `@consumer.rejects`.
    """

    effects: Mapping[str, Effect[Any, Any]]
    refusals: Collection[type[Refusal]]
    ledger: EffectLedger
    timeout_seconds: float

    def intend(
        self, pk: str, requested: tuple[Effect[Any, Any], bytes], deadline: Deadline
    ) -> Intent:
        """Return the intent to commit before the effect is called, with this request as JSON.

        Raises:
            OutOfTime: the time left in this invocation is shorter than one call's timeout.
            InvalidWrite: the consumer does not declare the effect.
        """
        self._check_time(deadline)
        effect, request = requested
        if self.effects.get(effect.name) is not effect:
            raise InvalidWrite(
                f"the effect {effect.name!r} is not declared by this consumer: declare it with "
                "@consumer.effect"
            )
        seconds = deadline.seconds_to_the_end
        return self.ledger.open(effect, request, pk, seconds, self.refusals)

    def begin(self, pk: str, intent: Intent, deadline: Deadline) -> EffectAttempt:
        """Return the attempt of the delivery that has just committed the intent."""
        return EffectAttempt(pk, self.effects[intent.effect], intent, deadline, clean=True)

    def resume(self, pk: str, found: Intent, deadline: Deadline) -> EffectAttempt:
        """Take over an effect that an earlier delivery left pending.

        A settled effect is not taken over: the attempt has its outcome, in any delivery.

        Raises:
            OnceError: this delivery may not call the effect, or no delivery may.
        """
        if found.effect not in self.effects:
            text = f"the pending effect {found.effect!r} is no longer declared by this consumer"
            raise self.stuck(found, PermanentError(f"{text}: bring it back"))
        effect = self.effects[found.effect]
        if found.standing is Standing.SETTLED:
            outcome = restored(effect, found.outcome or "", self.refusals)
            return EffectAttempt(
                pk, effect, found, deadline, clean=False, is_done=True, outcome=outcome
            )
        self._check_time(deadline)
        mine = self.ledger.take_over(effect, pk, found, deadline.seconds_to_the_end)
        clean = found.standing is Standing.NOT_DONE
        return EffectAttempt(pk, effect, mine, deadline, clean=clean)

    def call(self, attempt: EffectAttempt, within: Within) -> None:
        """Call the provider, up to three times, and set the outcome. A Refusal is an outcome too.

        Each call runs within the hooks. If one fails after the call, the outcome is kept.

        Raises:
            WrongOutcome: the effect was done, and its outcome is not of the declared type.
            OnceError: there is no outcome. The error's class determines whether the message is
                retried.
        """
        effect, deadline = attempt.effect, attempt.deadline
        try:
            request = model_of(effect.model).read_text(attempt.intent.request)
        except msgspec.ValidationError as error:
            text = (
                f"the pending request of {effect.name!r} does not fit its model any more: "
                f"bring the model back: {fault_text(error)}"
            )
            if attempt.clean:
                raise PermanentError(text) from None
            raise EffectUnknown(f"{text}; {attempt.intent.account}") from None
        self._check_time(deadline)  # the intent may have taken long
        for calls in range(1, _MAX_CALLS + 1):
            try:
                self._attempt(attempt, request, within)
            except (NotDone, Unanswered):
                is_last = calls == _MAX_CALLS or not deadline.pause(calls)
                if is_last or deadline.seconds < self.timeout_seconds:
                    raise
            else:
                _check_outcome(effect, attempt.outcome)
                return

    def hand_back(self, attempt: EffectAttempt, error: OnceError) -> OnceError:
        """Hand an effect back, for a later delivery; return the error of its message.

        An outcome whose commit failed is kept in the record. If that fails too, the error holds the
        outcome of an effect that must not be called again.
        """
        if attempt.intent.standing is Standing.SETTLED:
            return (
                error  # its record keeps the outcome already, and this delivery has no lease on it
            )
        text, standing = None, Standing.NOT_DONE if attempt.clean else Standing.UNKNOWN
        if attempt.is_done:
            standing = Standing.UNKNOWN
            with suppress(NotKept):
                text, standing = kept_text(attempt.effect, attempt.outcome), Standing.SETTLED
        # An effect that is done is never handed back as not done, also if its outcome is not kept.
        is_stored = self.ledger.hand_back(attempt.pk, attempt.intent, standing, text)
        is_safe = (is_stored and text) or attempt.effect.policy is not Policy.AT_MOST_ONCE
        if is_safe or not attempt.is_done:
            return error
        why = error if isinstance(error, WrongOutcome) else error.summary
        return EffectUnknown(
            f"the effect {attempt.effect.name!r} was done, and its outcome could be neither "
            f"committed ({why}) nor kept in its record. It is in the attribute "
            f"{DeadLetterAttribute.OUTCOME}: `once effects settle MESSAGE_ID --recorded --why "
            "TEXT` stores it",
            outcome=_shown(attempt.effect, attempt.outcome),
        )

    def stuck(self, found: Intent, error: PermanentError) -> OnceError:
        """Return the error of a pending effect whose message cannot go on because of `error`."""
        try:
            self.ledger.check_ended(found)
        except InFlight as running:  # the owner may go on
            return running
        is_known = found.standing in (Standing.NOT_DONE, Standing.SETTLED)
        return (type(error) if is_known else EffectUnknown)(f"{error}; {found.account}")

    def _attempt(self, attempt: EffectAttempt, request: Any, within: Within) -> None:
        """Call the provider once, and set the outcome. Updates whether the attempt is clean."""
        clean, attempt.clean = attempt.clean, False
        run = _Run(attempt.effect.function, request, self._terms(attempt), within)
        if run.is_answered:
            _set_outcome(attempt, run)
        elif not run.has_begun:
            attempt.clean = clean
            _refuse_to_begin(attempt, run.error)
        elif isinstance(run.error, KeySpent):
            self._look_up(attempt, request, within)
        elif run.error is not None:
            _fail(attempt, run.error, clean=clean)

    def _look_up(self, attempt: EffectAttempt, request: Any, within: Within) -> None:
        """Ask the provider for the outcome behind a saved error."""
        if attempt.effect.look_up is None:
            raise EffectUnknown(
                f"the effect {attempt.effect.name!r} ended in an error that says nothing of its "
                "outcome, and has no look-up: find out outside what became of it"
            )
        if attempt.deadline.spent:
            raise Unanswered(f"no time was left to look the effect {attempt.effect.name!r} up")
        run = _Run(attempt.effect.look_up, request, self._terms(attempt), within)
        if run.answer is not None:
            _set_outcome(attempt, run)
        elif run.error is not None:
            raise _unanswered(attempt, run.error) from run.error
        else:
            attempt.intent = self.ledger.renew_key(attempt.effect, attempt.pk, attempt.intent)
            attempt.clean = True
            raise NotDone("the provider's attempt ended in an error, and did nothing")

    def _terms(self, attempt: EffectAttempt) -> Call:
        seconds = min(self.timeout_seconds, attempt.deadline.seconds)
        return Call(attempt.intent.provider_key, seconds, attempt.intent.request)

    def _check_time(self, deadline: Deadline) -> None:
        if deadline.seconds < self.timeout_seconds:
            raise OutOfTime("a call to the outside world would not fit into this invocation")


class _Run:
    """One run of an effect's function, or of its look-up, within the hooks.

    Attributes:
        answer: the value that the function returned, or the Refusal that it raised.
        is_answered: whether there is an answer.
        has_begun: whether the function may have run.
        error: of a function that has begun, only its own error: a hook that replaces this cannot
            know what happened. Otherwise the error of a hook; None without one.
    """

    def __init__(
        self, function: Callable[[Any, Call], Any], request: Any, terms: Call, within: Within
    ) -> None:
        self.answer: Any = None
        self.is_answered = self.has_begun = False
        self.error: BaseException | None = None

        def call() -> None:
            try:
                answer = function(request, terms)
                self.answer = (
                    awaited(answer, terms.timeout_seconds) if isawaitable(answer) else answer
                )
                self.is_answered = self.has_begun = True
            except Refusal as refusal:
                self.answer, self.is_answered, self.has_begun = refusal, True, True
                raise
            except BaseException as error:
                self.error, self.has_begun = error, _has_begun(function, error)
                raise

        try:
            within(call)
        # Also SystemExit and the like: an error of one effect must not end those of the others.
        except BaseException as error:
            if self.is_answered or not self.has_begun:
                self.error = error


def _set_outcome(attempt: EffectAttempt, run: _Run) -> None:
    """Set the outcome. If a hook has failed after the call, the next delivery commits it."""
    attempt.outcome, attempt.is_done = run.answer, True
    if run.error is not None and run.error is not run.answer:
        raise Unexpected(run.error)


def _refuse_to_begin(attempt: EffectAttempt, error: BaseException | None) -> None:
    """Raise the error of a call that was not made, or set the outcome if that is a Refusal.

    Raises:
        OnceError: there is no outcome.
    """
    match error:
        case Refusal() if attempt.clean:
            attempt.outcome, attempt.is_done = error, True
        case NotDone():
            raise error
        case PermanentError() | Refusal():
            raise _for_good(attempt, error)
        case _:
            summary = "no hook ran it" if error is None else Unexpected(error).summary
            text = f"{attempt.effect.name!r} could not be started: {summary}"
            raise NotDone(text) from error


def _fail(attempt: EffectAttempt, error: BaseException, *, clean: bool) -> NoReturn:
    """Raise the error of a function that has begun, by what it says of the effect."""
    match error:
        case NotDone():
            attempt.clean = clean
            raise error
        case KeyConflict():  # another request has the key, so no attempt with this was taken
            attempt.clean = True
            raise error
        case EffectUnknown():
            raise error
        case PermanentError():
            attempt.clean = clean
            raise _for_good(attempt, error)
    raise _unanswered(attempt, error) from error


def _for_good(attempt: EffectAttempt, error: OnceError) -> OnceError:
    """Return the error of an effect that was refused for good, by what happened before."""
    if attempt.clean:
        return error
    unknown = EffectUnknown(
        f"the effect {attempt.effect.name!r} may have happened in an earlier attempt, and now the "
        f"provider refuses it for good: look it up there: {error}"
    )
    unknown.__cause__ = error
    return unknown


def _unanswered(attempt: EffectAttempt, error: BaseException) -> OnceError:
    """Return the error of a call without an outcome, by the effect's policy."""
    text = f"the effect {attempt.effect.name!r} brought no outcome: {Unexpected(error).summary}"
    if attempt.effect.policy is Policy.AT_MOST_ONCE:
        return EffectUnknown(f"{text}; it is done at most once: find out outside whether it was")
    return Unanswered(text)


def _has_begun(function: Callable[..., object], error: BaseException) -> bool:
    # A Python function that ran is in the traceback, after the frame that called it. If it is not,
    # the call itself failed, for example because of its arguments. Of any other callable, such as a
    # compiled one, the traceback tells nothing.
    is_python = isinstance(getattr(function, "__func__", function), FunctionType)
    first = error.__traceback__
    return not is_python or first is None or first.tb_next is not None


def _check_outcome(effect: Effect[Any, Any], outcome: Any) -> None:
    """Check that the outcome could be kept: otherwise only a recovery would find the mistake."""
    try:
        size = len(kept_text(effect, outcome).encode())
    except NotKept as error:
        if isinstance(outcome, Refusal):
            return
        raise WrongOutcome(
            f"the effect {effect.name!r} was done, and returned a value of the type "
            f"{type(outcome).__qualname__}, which does not fit the declared "
            f"{formatannotation(effect.outcome_type)} ({error}): correct the function or its "
            "annotation, deploy, and redrive"
        ) from None
    if size > OUTCOME_BYTES and effect.policy is Policy.AT_MOST_ONCE:
        raise WrongOutcome(
            f"the effect {effect.name!r} was done, and its outcome has {size:,} bytes as JSON; one "
            f"that is done at most once may have {OUTCOME_BYTES:,}, so that a dead letter "
            "can hold it: return what the completion needs, deploy, and redrive"
        )


class NotKept(Exception):
    """The outcome cannot be restored from JSON as it was."""


class _Kept(msgspec.Struct, frozen=True):
    """`returned` is what the effect returns; or `refused` names the class of its Refusal."""

    returned: msgspec.Raw = msgspec.Raw(b"null")
    refused: str | None = None
    arguments: tuple[Any, ...] = ()


def returned_text(outcome: bytes) -> str:
    """Return the kept form of an outcome that an effect returns, given as JSON."""
    return _sendable({"returned": msgspec.Raw(outcome)})


def refused_text(name: str, arguments: Sequence[Any]) -> str:
    """Return the kept form of a Refusal: the name of its class, and its arguments."""
    return _sendable({"refused": name, "arguments": arguments})


def _sendable(kept: Mapping[str, Any]) -> str:
    # SQS takes these two characters, which JSON need not escape, in no attribute.
    text = msgspec.json.encode(kept).decode()
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _form(effect: Effect[Any, Any], outcome: Any) -> str:
    if isinstance(outcome, Refusal):
        return refused_text(type(outcome).__name__, outcome.args)
    return returned_text(msgspec.json.encode(model_of(effect.outcome_type).written(outcome)))


def _shown(effect: Effect[Any, Any], outcome: Any) -> str:
    """Return an outcome as a dead letter shows it: in its kept form, or else as Python does."""
    text = f"a value of the type {type(outcome).__qualname__}"
    for form in (
        partial(_form, effect),
        lambda other: returned_text(msgspec.json.encode(other)),  # of another type than declared
        repr,
    ):
        with suppress(Exception):  # a user's class may raise anything
            text = form(outcome)
            break
    return text.encode(errors="replace")[:OUTCOME_BYTES].decode(errors="ignore")


def described_outcome(text: str) -> tuple[str, str]:
    """Return `done` or `refused` for a kept form, and its outcome as text.

    Raises:
        ValueError: it is no kept form.
    """
    kept = msgspec.json.decode(text, type=_Kept)
    if kept.refused is None:
        return "done", bytes(kept.returned).decode()
    arguments = ", ".join(map(str, kept.arguments))
    return "refused", f"{kept.refused}({arguments})"


def kept_text(effect: Effect[Any, Any], outcome: Any) -> str:
    """Return the kept form of an outcome.

    Raises:
        NotKept: it has no JSON form, or could not be restored from it.
    """
    try:
        text = _form(effect, outcome)
        kept = msgspec.json.decode(text, type=_Kept)
        if isinstance(outcome, Refusal):
            again = type(outcome)(*kept.arguments)
            is_same = (again.args, vars(again)) == (outcome.args, vars(outcome))
        else:
            is_same = bool(model_of(effect.outcome_type).read_text(bytes(kept.returned)) == outcome)
    except Exception as error:  # a user's class may raise anything
        raise NotKept(fault_text(error)) from error
    if not is_same:
        raise NotKept("read back from JSON, it is not equal")
    return text


def restored(effect: Effect[Any, Any], text: str, refusals: Iterable[type[Refusal]]) -> Any:
    """Return the outcome of a kept form. A Refusal is returned, not raised.

    The outcome is decoded as the type that the effect's function returns.

    Raises:
        EffectUnknown: the kept outcome is not of the effect's type.
        UnhandledRefusal: the consumer has no answer to the refusal.
    """
    try:
        kept = msgspec.json.decode(text, type=_Kept)
        if kept.refused is None:
            return model_of(effect.outcome_type).read_text(bytes(kept.returned))
        return _refusal_class(kept.refused, refusals)(*kept.arguments)
    except UnhandledRefusal:
        raise
    except Exception as error:  # a user's class may raise anything
        raise EffectUnknown(
            f"the outcome in the record does not fit the effect {effect.name!r}: settle it "
            f"again with `once effects settle KEY --done JSON --why TEXT`, or bring the type back: "
            f"{fault_text(error)}"
        ) from None


def _refusal_class(name: str, known: Iterable[type[Refusal]]) -> type[Refusal]:
    left = [*known]
    while left:
        kind = left.pop(0)
        if kind.__name__ == name:
            return kind
        left[:0] = kind.__subclasses__()
    raise UnhandledRefusal(
        f"the outcome in the record is the refusal {name}: add @consumer.rejects for its class, or "
        "settle the effect again with `once effects settle KEY --done JSON --why TEXT`"
    )
