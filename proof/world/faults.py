"""Faults: the kinds that are possible at each call, their answers, and the plan that injects them.

A plan draws at random or follows a list of actions.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from demo.payment_sandbox import PaymentFault, Response, key_in_use, rate_limited, server_error
from once.names import CLOCK_SKEW_SECONDS
from proof.world.calls import PROVIDER, Call, ServiceError

_LASTING = 0.6
"""Share of the faults that the SDK's retries meet as well."""
_SKEWED = 0.5
"""Share of function processes whose clock is slow or fast."""
_SKEWS = (-CLOCK_SKEW_SECONDS, -60.0, 60.0, CLOCK_SKEW_SECONDS)


class Fault(StrEnum):
    """A fault of a call."""

    CRASH_BEFORE = "crash before"
    """The calling process is killed before the call."""
    CRASH_AFTER = "crash after"
    """The call is executed, and the calling process is killed."""
    REFUSED = "refused"
    """The call is not executed, and the error response says so."""
    LOST = "answer lost"
    """The call is executed, and its answer is lost."""
    LATE = "late"
    """The caller gets no answer, and the call is executed some time later."""
    CONFLICT = "conflict"
    """The call is not executed because of another one on the same item or key."""
    THROTTLE = "throttle"
    """The call is not executed for lack of capacity."""
    HALF = "half done"
    """A part of a batch is executed; the answer is a success that lists the failed entries."""
    SAVED_DONE = "saved error, done"
    """The provider executes the call, and returns an error for its key from then on."""
    SAVED_NOT_DONE = "saved error, not done"
    """The provider fails before it executes, and returns an error for the key from then on."""


SAVED = {
    Fault.SAVED_DONE: PaymentFault.ERROR_AFTER,
    Fault.SAVED_NOT_DONE: PaymentFault.ERROR_BEFORE,
}
EVERYWHERE = frozenset(set(Fault) - {Fault.CONFLICT, Fault.HALF, *SAVED})
_KINDS = {
    "dynamodb.TransactWriteItems": EVERYWHERE | {Fault.CONFLICT},
    "dynamodb.PutItem": EVERYWHERE | {Fault.CONFLICT},
    "dynamodb.UpdateItem": EVERYWHERE | {Fault.CONFLICT},
    "sns.PublishBatch": EVERYWHERE | {Fault.HALF},
    f"{PROVIDER}.POST /v1/payment_intents": EVERYWHERE | {Fault.CONFLICT, *SAVED},
}

_ERRORS = {
    "dynamodb": (("AccessDeniedException", 400), ("ThrottlingException", 400)),
    "sqs": (("ServiceUnavailable", 503), ("RequestThrottled", 400)),
    "sns": (("InternalError", 500), ("Throttled", 400)),
    "email": (("LimitExceededException", 400), ("TooManyRequestsException", 429)),
    "secretsmanager": (("AccessDeniedException", 400), ("ThrottlingException", 400)),
    "s3": (("AccessDenied", 403), ("SlowDown", 503)),
    "scheduler": (("ServiceQuotaExceededException", 402), ("ThrottlingException", 429)),
    "states": (("AccessDeniedException", 400), ("ThrottlingException", 400)),
    "lambda": (("AccessDeniedException", 403), ("TooManyRequestsException", 429)),
}
"""The error responses of each service: of REFUSED, and of THROTTLE."""


def kinds(service: str, operation: str) -> frozenset[Fault]:
    """Return the faults that are possible for an operation of a service."""
    return _KINDS.get(f"{service}.{operation}", EVERYWHERE)


def refusal(call: Call, fault: Fault, position: int) -> Response:
    """Return the provider's error response to a call, or raise that of an AWS service.

    Args:
        call: the call, which is not executed.
        fault: REFUSED, CONFLICT or THROTTLE.
        position: the entry of a transaction that is in conflict, modulo their number; for REFUSED,
            an odd one means a missing table, and an even one missing rights.

    Raises:
        ServiceError: the error response of an AWS service.
    """
    if call.service == PROVIDER:
        return _provider_error(call, fault)
    if fault is Fault.REFUSED and call.service == "dynamodb" and position % 2:
        raise ServiceError("ResourceNotFoundException")  # the table is missing for a while
    if fault is not Fault.CONFLICT:
        raise ServiceError(*_ERRORS[call.service][fault is Fault.THROTTLE])
    if "TransactItems" not in call.request:
        raise ServiceError("TransactionConflictException")
    reasons = [{"Code": "None"} for _ in call.request["TransactItems"]]
    conflict = {"Code": "TransactionConflict", "Message": "conflict"}
    reasons[position % len(reasons)] = conflict
    raise ServiceError("TransactionCanceledException", CancellationReasons=reasons)


def _provider_error(call: Call, fault: Fault) -> Response:
    if fault is Fault.CONFLICT:
        return key_in_use(call.request.idempotency_key).answer
    # Stripe saves the result of an execution, and no refusal before it.
    return rate_limited() if fault is Fault.THROTTLE else server_error()


class PlatformFault(StrEnum):
    """A fault of queues, streams, Lambda or clocks, outside of calls."""

    REDELIVERED = "redelivered"
    """A queue delivers a deleted message again."""
    VISIBLE_EARLY = "visible early"
    """A queue delivers a message that a function is working on."""
    THROTTLED = "throttled"
    """Lambda throttles the function: messages are received without an invocation."""
    BATCH_AGAIN = "batch again"
    """The stream delivers a batch again that the relay has finished."""
    DROPPED = "dropped"
    """The stream loses a batch before the relay reads it, as after an outage of over 24 h."""
    SKEWED = "skewed clock"
    """A function's clock is slow or fast while its process is warm."""
    HOOK_RAISES = "hook raises"
    """A hook around an effect raises an error, before the effect or after it."""
    FIRED_LATE = "fired late"
    """A schedule fires later than in its minute, as after attempts that failed."""
    FIRED_TWICE = "fired twice"
    """A schedule fires once more."""
    UNANSWERED = "unanswered"
    """The function answers an HTTP request, and the sender gets no answer."""


Kinds = frozenset[Fault] | frozenset[PlatformFault]


@dataclass(frozen=True, slots=True)
class Action:
    """The injection of one fault.

    Attributes:
        place: a call site, as `module.function service.operation`, or a platform fault and its
            function.
        number: the occurrence at this place, from 1.
        what: a Fault or a PlatformFault.
        lasting: whether the SDK's retries meet it as well.
        position: the entry of a request that it is about, modulo their number; see `refusal`. Of a
            hook, the error that it raises.
        seconds: the delay of a late call, or by how much a clock is fast.
    """

    place: str
    number: int
    what: str
    lasting: bool = True
    position: int = 0
    seconds: float = 2.0

    def __str__(self) -> str:
        return f"{self.place} #{self.number}: {self.what}"


@dataclass(frozen=True, slots=True)
class InjectionPoint:
    """One occurrence of a place, and the faults that are possible there."""

    place: str
    number: int
    possible: Kinds


Draw = Callable[[InjectionPoint], Action | None]


class Plan:
    """Decides which faults are injected: `draw` returns that of an injection point, or None.

    Attributes:
        actions: the injected faults, in order.
        reached: the calls at which a fault could be injected, in order.
        off: whether no more faults are injected.
    """

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._first_attempts: dict[str, Action | None] = {}
        self._seen: Counter[str] = Counter()
        self.actions: list[Action] = []
        self.reached: list[InjectionPoint] = []
        self.off = False

    def call(self, call: Call) -> Action | None:
        """Return the fault of one attempt of a call."""
        if call.name in self._first_attempts:
            first = self._first_attempts[call.name]
            return first if first is not None and first.lasting and not self.off else None
        point, action = self._drawn(call.place, kinds(call.service, call.operation))
        if not self.off:
            self.reached.append(point)
        if call.name:
            self._first_attempts[call.name] = action
        return action

    def platform(self, kind: PlatformFault, function: str) -> Action | None:
        """Return the action if a platform fault of a function occurs."""
        return self._drawn(f"{kind} {function}", frozenset({kind}))[1]

    def skew(self, function: str) -> float:
        """Return by how many seconds the clock of a new function process is fast."""
        action = self.platform(PlatformFault.SKEWED, function)
        return 0.0 if action is None else action.seconds

    def _drawn(self, place: str, possible: Kinds) -> tuple[InjectionPoint, Action | None]:
        self._seen[place] += 1
        point = InjectionPoint(place, self._seen[place], possible)
        action = None if self.off else self._draw(point)
        if action is not None:
            self.actions.append(action)
        return point, action


@cache
def _in_order(possible: Kinds) -> tuple[Any, ...]:
    return tuple(sorted(possible))


def chance(seed: int, fault_rate: float, platform_rate: float) -> Draw:
    """Return a draw of random faults, by the rate of each call and of each platform fault."""
    draw = random.Random(f"faults {seed}")
    clocks, hooks = random.Random(f"clocks {seed}"), random.Random(f"hooks {seed}")

    def drawn(point: InjectionPoint) -> Action | None:
        what = _in_order(point.possible)
        if what == (PlatformFault.SKEWED,):
            if clocks.random() >= _SKEWED:
                return None
            seconds = clocks.choice(_SKEWS)
            return Action(point.place, point.number, PlatformFault.SKEWED, seconds=seconds)
        chosen = hooks if what == (PlatformFault.HOOK_RAISES,) else draw
        if chosen.random() >= (platform_rate if isinstance(what[0], PlatformFault) else fault_rate):
            return None
        return Action(
            point.place,
            point.number,
            chosen.choice(what),
            lasting=chosen.random() < _LASTING,
            position=chosen.randrange(6),
            seconds=chosen.choice([0.1, 2.0, 20.0, 60.0]),
        )

    return drawn


def script(actions: Iterable[Action]) -> Draw:
    """Return a draw of these actions; one whose place does not occur has no effect."""
    wanted = {(action.place, action.number): action for action in actions}
    return lambda point: wanted.get((point.place, point.number))
