"""Faults that no emulator makes, injected at the SDK's boundary: below all of our own code."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ReadTimeoutError


@dataclass(frozen=True, slots=True)
class Fault:
    """What one call meets.

    Attributes:
        answer: makes the answer that stands in for the service's; the call is not sent.
        lose_answer: the call is sent and done, and its answer never arrives.
    """

    answer: Callable[[Any], AWSResponse] | None = None
    lose_answer: bool = False


def cancelled(*codes: str) -> Fault:
    """Return the fault of a cancelled transaction, with one reason code for each action."""
    reasons = [{"Code": code, "Message": code} for code in codes]
    return _error("TransactionCanceledException", CancellationReasons=reasons)


def refused(code: str, *, status: int = HTTPStatus.BAD_REQUEST) -> Fault:
    """Return the fault of a call that the service refuses with an error code."""
    return _error(code, status=status)


def never_sent() -> Fault:
    """Return the fault of a call that times out before it reaches the service."""

    def time_out(request: Any) -> AWSResponse:
        raise ReadTimeoutError(endpoint_url=request.url)

    return Fault(answer=time_out)


def answer_lost() -> Fault:
    """Return the fault of a call that is done, and whose answer never arrives."""
    return Fault(lose_answer=True)


@contextmanager
def inject(client: Any, operation: str, *faults: Fault | None) -> Iterator[list[Fault | None]]:
    """Let the next calls of an operation meet these faults, in order; None lets a call through.

    Args:
        client: a boto3 client.
        operation: the operation as AWS spells it, such as `TransactWriteItems`.
        faults: one for each attempt that leaves the SDK, its own retries included.

    Yields:
        The faults still to come: empty at the end, or the test has not met them all.
    """
    waiting = list(faults)
    lost: list[bool] = []
    service = client.meta.service_model.service_name

    def before_send(request: Any, **_: Any) -> AWSResponse | None:
        fault = waiting.pop(0) if waiting else None
        lost.append(fault is not None and fault.lose_answer)
        return fault.answer(request) if fault is not None and fault.answer is not None else None

    def after_receive(**_: Any) -> None:
        if lost and lost.pop():
            raise ReadTimeoutError(endpoint_url=service)

    hooks = (
        (f"before-send.{service}.{operation}", before_send),
        (f"response-received.{service}.{operation}", after_receive),
    )
    for name, hook in hooks:
        client.meta.events.register_first(name, hook)
    try:
        yield waiting
    finally:
        for name, hook in hooks:
            client.meta.events.unregister(name, hook)


def _error(code: str, *, status: int = HTTPStatus.BAD_REQUEST, **more: Any) -> Fault:
    body = json.dumps({"__type": f"com.amazonaws#{code}", "message": code, **more}).encode()

    def answer(request: Any) -> AWSResponse:
        headers = HTTPHeaders.from_pairs([("Content-Type", "application/x-amz-json-1.0")])
        return AWSResponse(request.url, status, headers, _Raw(body))

    return Fault(answer=answer)


class _Raw(BytesIO):
    """As much of a urllib3 response as botocore reads."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        """Yield the content, once."""
        yield self.read()
