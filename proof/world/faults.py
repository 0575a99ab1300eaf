"""What a call meets instead of being done and answered, and what each service says to it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from demo.payment_sandbox.errors import key_in_use, rate_limited, server_error
from demo.payment_sandbox.faults import PaymentFault as Saved
from demo.payment_sandbox.http_messages import Response
from proof.world.calls import PROVIDER, Call
from proof.world.errors import ServiceError


class Fault(StrEnum):
    """What may become of a call."""

    CRASH_BEFORE = "crash before"
    """Its process is killed, and the call was never made."""
    CRASH_AFTER = "crash after"
    """Its process is killed, and the call is done."""
    REFUSED = "refused"
    """It is certainly not done, and the answer says so."""
    LOST = "answer lost"
    """It is done, and no answer comes."""
    LATE = "late"
    """No answer comes, and some time afterwards it is done."""
    CONFLICT = "conflict"
    """Another call is in the way: nothing is done."""
    THROTTLE = "throttle"
    """There is no capacity for it: nothing is done."""
    HALF = "half done"
    """A batch is done in part, and the answer, which is none of an error, says of which."""
    SAVED_DONE = "saved error, done"
    """The provider does it, fails afterwards, and answers this error for ever."""
    SAVED_NOT_DONE = "saved error, not done"
    """The provider fails before it does anything, and answers this error for ever."""


SAVED = {
    Fault.SAVED_DONE: Saved.ERROR_AFTER,
    Fault.SAVED_NOT_DONE: Saved.ERROR_BEFORE,
}
EVERYWHERE = frozenset(set(Fault) - {Fault.CONFLICT, Fault.HALF, *SAVED})
_KINDS = {
    "dynamodb.TransactWriteItems": EVERYWHERE | {Fault.CONFLICT},
    "sns.PublishBatch": EVERYWHERE | {Fault.HALF},
    f"{PROVIDER}.POST /v1/payment_intents": EVERYWHERE | {Fault.CONFLICT, *SAVED},
}

_REFUSED = {
    "dynamodb": ("AccessDeniedException", 400),
    "sqs": ("ServiceUnavailable", 503),
    "sns": ("InternalError", 500),
    "email": ("LimitExceededException", 400),
    "secretsmanager": ("AccessDeniedException", 400),
}
_THROTTLED = {
    "dynamodb": ("ThrottlingException", 400),
    "sqs": ("RequestThrottled", 400),
    "sns": ("Throttled", 400),
    "email": ("TooManyRequestsException", 429),
    "secretsmanager": ("ThrottlingException", 400),
}


def kinds(service: str, operation: str) -> frozenset[Fault]:
    """Return the faults that an operation of a service can meet."""
    return _KINDS.get(f"{service}.{operation}", EVERYWHERE)


def refusal(call: Call, fault: Fault, position: int) -> Response:
    """Return or raise what a service answers that does nothing.

    Args:
        call: the call.
        fault: REFUSED, CONFLICT or THROTTLE.
        position: of a transaction's entry that a conflict is about; counted round.

    Raises:
        ServiceError: the answer of an AWS service.
    """
    if call.service == PROVIDER:
        return _provider(call, fault)
    if fault is Fault.CONFLICT:
        raise ServiceError(
            "TransactionCanceledException", CancellationReasons=_reasons(call.request, position)
        )
    raise ServiceError(*(_REFUSED if fault is Fault.REFUSED else _THROTTLED)[call.service])


def _provider(call: Call, fault: Fault) -> Response:
    if fault is Fault.CONFLICT:
        return key_in_use(call.request.idempotency_key).answer
    # Stripe saves what an execution came to, and no refusal before it.
    return rate_limited() if fault is Fault.THROTTLE else server_error()


def _reasons(request: Mapping[str, Any], position: int) -> list[dict[str, str]]:
    entries = request["TransactItems"]
    reasons = [{"Code": "None"} for _ in entries]
    reasons[position % len(entries)] = {"Code": "TransactionConflict", "Message": "conflict"}
    return reasons
