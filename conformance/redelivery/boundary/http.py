"""HTTP calls other than to AWS: recorded, and answered as the subject says.

A request with an `Idempotency-Key` is answered as its first was, for 24 hours, and counts once:
https://docs.stripe.com/api/idempotent_requests. The key with another body is refused with 400.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redelivery.boundary.call import Call, Failures, Record, Sent
from redelivery.boundary.threads import current
from redelivery.subject import Answer

KEY_SECONDS = 24 * 60 * 60
_READS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request; header names are lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """Its answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class HttpServers:
    """Every HTTP server that the handler calls.

    Attributes:
        answers: the subject's; the first that matches is given.
        now: the time in seconds, on the clock of the run.
    """

    answers: Sequence[Answer]
    now: Callable[[], float]
    _remembered: dict[str, tuple[float, bytes, Response]] = field(default_factory=dict)

    def send(self, request: Request, failures: Failures) -> Response:
        """Pass the boundary, and answer. Raises what `failures` makes, or Killed."""
        invocation = current()
        if invocation is None:
            raise RuntimeError(f"the conformance kit itself calls {request.url}")
        target = _target(request)
        writes = request.method not in _READS
        call = Call(
            target.partition(" ")[0], target.partition(" ")[2], writes, touches=(target,) * writes
        )
        response: Response = invocation.make(
            call, lambda: self._answer(request, invocation.record), failures
        )
        return response

    def reset(self) -> None:
        """Forget the keys of an earlier run."""
        self._remembered.clear()

    def _answer(self, request: Request, record: Record) -> Response:
        key = request.headers.get("idempotency-key", "")
        since, body, response = self._remembered.get(key, (0.0, b"", None))
        if key and response is not None and self.now() - since < KEY_SECONDS:
            return response if body == request.body else _KEY_CONFLICT
        response = _response(self._found(request))
        if request.method not in _READS:
            record.send(Sent(_target(request), _content(request)))
        if key:
            self._remembered[key] = (self.now(), request.body, response)
        return response

    def _found(self, request: Request) -> Answer:
        for answer in self.answers:
            if answer.method in {"", request.method} and request.url.startswith(answer.url):
                return answer
        return Answer(request.url)


_KEY_CONFLICT = Response(
    HTTPStatus.BAD_REQUEST,
    {"content-type": "application/json"},
    b'{"error": {"type": "idempotency_error"}}',
)


def _response(answer: Answer) -> Response:
    body = answer.body
    if not isinstance(body, bytes):
        body = (body if isinstance(body, str) else json.dumps(body)).encode()
    return Response(answer.status, {"content-type": "application/json", **answer.headers}, body)


def _target(request: Request) -> str:
    parts = urlsplit(request.url)
    return f"{request.method} {parts.scheme}://{parts.netloc}{parts.path}"


def _content(request: Request) -> dict[str, Any]:
    query = dict(parse_qsl(urlsplit(request.url).query))
    text = request.body.decode("utf-8", "replace")
    form = "x-www-form-urlencoded" in request.headers.get("content-type", "")
    return {**query, "body": dict(parse_qsl(text)) if form else text}
