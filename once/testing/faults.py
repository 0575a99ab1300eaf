"""Faults that no emulator makes, injected at the SDK's boundary: below all of our own code."""

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
    """The fault that one call meets.

    Attributes:
        done: whether the service does the call all the same.
        error: the error answer that arrives, in the form of `ClientError.response`; without one,
            nothing arrives.
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
    """Return the fault of a call that is done, and whose answer never arrives."""
    return Fault(done=True)


@contextmanager
def inject(client: Any, operation: str, *faults: Fault | None) -> Iterator[list[Fault | None]]:
    """Let the next calls of an operation meet these faults, in order; None lets a call through.

    Args:
        client: a boto3 client.
        operation: the operation as AWS spells it, such as `TransactWriteItems`.
        faults: one for each call, whose own retries in the SDK are spent with it.

    Yields:
        The faults still to come: empty at the end, or the test has not met them all.
    """
    waiting = list(faults)
    service = client.meta.service_model.service_id.hyphenize()

    def before_call(context: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]] | None:
        fault = context[_MARK] = waiting.pop(0) if waiting else None
        if fault is None or fault.done:
            return None
        if fault.error is None:
            raise ReadTimeoutError(endpoint_url=operation)
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
