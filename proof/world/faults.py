"""Faults of calls, and the error response of each service."""

from enum import StrEnum

from demo.payment_sandbox import PaymentFault, Response, key_in_use, rate_limited, server_error
from proof.world.calls import PROVIDER, Call
from proof.world.errors import ServiceError


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
    Fault.REFUSED: {
        "dynamodb": ("AccessDeniedException", 400),
        "sqs": ("ServiceUnavailable", 503),
        "sns": ("InternalError", 500),
        "email": ("LimitExceededException", 400),
        "secretsmanager": ("AccessDeniedException", 400),
        "s3": ("AccessDenied", 403),
    },
    Fault.THROTTLE: {
        "dynamodb": ("ThrottlingException", 400),
        "sqs": ("RequestThrottled", 400),
        "sns": ("Throttled", 400),
        "email": ("TooManyRequestsException", 429),
        "secretsmanager": ("ThrottlingException", 400),
        "s3": ("SlowDown", 503),
    },
}


def kinds(service: str, operation: str) -> frozenset[Fault]:
    """Return the faults that are possible for an operation of a service."""
    return _KINDS.get(f"{service}.{operation}", EVERYWHERE)


def refusal(call: Call, fault: Fault, position: int) -> Response:
    """Return the provider's error response, or raise that of an AWS service.

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
        raise ServiceError(*_ERRORS[fault][call.service])
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
