"""Faults that emulators do not produce, injected into a boto3 client below the library's code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ReadTimeoutError

_MARK = "once_fault"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one call.

    Attributes:
        done: whether the service executes the call.
        error: the error response, in the form of `ClientError.response`; None for no response.
    """

    done: bool = False
    error: dict[str, Any] | None = None


def cancelled(*codes: str) -> Fault:
    """Return the fault of a cancelled transaction, with one reason code for each action."""
    reasons = [{"Code": code, "Message": code} for code in codes]
    return refused("TransactionCanceledException", CancellationReasons=reasons)


def refused(code: str, *, status: int = HTTPStatus.BAD_REQUEST, **more: Any) -> Fault:
    """Return the fault of a call that the service refuses with an error code."""
    error = {"Code": code, "Message": f"injected: {code}"}
    return Fault(error={"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}, **more})


def never_sent() -> Fault:
    """Return the fault of a call that times out before it reaches the service."""
    return Fault()


def answer_lost() -> Fault:
    """Return the fault of a call that the service executes, and whose response is lost."""
    return Fault(done=True)


@contextmanager
def inject(client: Any, operation: str, *faults: Fault | None) -> Iterator[list[Fault | None]]:
    """Inject faults into the next calls of an operation, in order; None lets a call succeed.

    Args:
        client: a boto3 client.
        operation: the operation as AWS spells it, such as `TransactWriteItems`.
        faults: one for each call. The SDK does not retry a call that has a fault.

    Yields:
        The remaining faults: empty at the end if the test has used them all.
    """
    waiting = list(faults)
    service = client.meta.service_model.service_id.hyphenize()

    # Botocore calls them before it sends the request of a call, and after it has read the answer.
    # The context is that of one call, so that calls of several threads keep their faults.
    def before_call(context: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]] | None:
        fault = context[_MARK] = waiting.pop(0) if waiting else None
        if fault is None or fault.done:
            return None
        if fault.error is None:
            raise ReadTimeoutError(endpoint_url=operation)
        # A response that a handler returns takes the place of the request.
        status = fault.error["ResponseMetadata"]["HTTPStatusCode"]
        return SimpleNamespace(status_code=status), fault.error

    def after_call(context: dict[str, Any], **_: Any) -> None:
        fault = context[_MARK]
        if fault is not None and fault.done:
            raise ReadTimeoutError(endpoint_url=operation)

    hooks = ((f"before-call.{service}.{operation}", before_call),
             (f"after-call.{service}.{operation}", after_call))  # fmt: skip
    for name, hook in hooks:
        client.meta.events.register(name, hook)
    try:
        yield waiting
    finally:
        for name, hook in hooks:
            client.meta.events.unregister(name, hook)
