"""HTTP calls other than to AWS: recorded, and answered as the subject says.

A request with an `Idempotency-Key` is answered as its first was, for 24 hours, and counts once:
https://docs.stripe.com/api/idempotent_requests. The key with another body is refused with 400."""

import email.message
import importlib.util
import io
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit
from urllib.response import addinfourl

import urllib3
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, NewConnectionError, ReadTimeoutError

from redelivery.boundary.call import Call, Failures, Record, Sent
from redelivery.boundary.invocation import current
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
    """

    answers: Sequence[Answer]
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
        if key and response is not None and time.time() - since < KEY_SECONDS:
            return response if body == request.body else _KEY_CONFLICT
        matching = (
            answer
            for answer in self.answers
            if answer.method in {"", request.method} and request.url.startswith(answer.url)
        )
        answer = next(matching, Answer(request.url))
        content = answer.body
        if not isinstance(content, bytes):
            content = (content if isinstance(content, str) else json.dumps(content)).encode()
        headers = {"content-type": "application/json", **answer.headers}
        response = Response(answer.status, headers, content)
        if request.method not in _READS:
            record.send(Sent(_target(request), _content(request)))
        if key:
            self._remembered[key] = (time.time(), request.body, response)
        return response


_KEY_CONFLICT = Response(
    HTTPStatus.BAD_REQUEST,
    {"content-type": "application/json"},
    b'{"error": {"type": "idempotency_error"}}',
)


def _target(request: Request) -> str:
    parts = urlsplit(request.url)
    return f"{request.method} {parts.scheme}://{parts.netloc}{parts.path}"


def _content(request: Request) -> dict[str, Any]:
    query = dict(parse_qsl(urlsplit(request.url).query))
    text = request.body.decode("utf-8", "replace")
    form = "x-www-form-urlencoded" in request.headers.get("content-type", "")
    return {**query, "body": dict(parse_qsl(text)) if form else text}


@contextmanager
def intercepted(servers: HttpServers) -> Iterator[None]:
    """Let the requests of every library pass the boundary."""
    with ExitStack() as patches:
        patches.enter_context(_urllib3(servers))
        patches.enter_context(_urllib(servers))
        if importlib.util.find_spec("httpx"):
            patches.enter_context(_httpx(servers))
        yield


@contextmanager
def _urllib3(servers: HttpServers) -> Iterator[None]:
    def urlopen(
        pool: HTTPConnectionPool,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        **options: Any,
    ) -> urllib3.HTTPResponse:
        port = f":{pool.port}" if pool.port not in {None, 80, 443} else ""
        path = url if url.startswith("/") else f"/{url.partition('://')[2].partition('/')[2]}"
        request = _request(method, f"{pool.scheme}://{pool.host}{port}{path}", headers, body)
        unreachable = NewConnectionError(cast(Any, pool), "connection refused")
        failures = Failures(
            refused=lambda: MaxRetryError(pool, url, unreachable),
            throttled=_throttled,
            no_answer=lambda: ReadTimeoutError(pool, url, "read timed out"),
        )
        response = _answered(servers, request, failures)
        return urllib3.HTTPResponse(
            io.BytesIO(response.body),
            response.headers,
            response.status,
            reason="",
            preload_content=options.get("preload_content", True),
            decode_content=options.get("decode_content", True),
            request_method=method,
        )

    with patch.object(HTTPConnectionPool, "urlopen", urlopen):
        yield


@contextmanager
def _urllib(servers: HttpServers) -> Iterator[None]:
    def do_open(_: Any, __: Any, asked: urllib.request.Request, **___: Any) -> addinfourl:
        headers = {**asked.headers, **asked.unredirected_hdrs}
        request = _request(asked.get_method(), asked.full_url, headers, asked.data)
        failures = Failures(
            refused=lambda: urllib.error.URLError("connection refused"),
            throttled=_throttled,
            no_answer=lambda: TimeoutError("read timed out"),
        )
        response = _answered(servers, request, failures)
        message = email.message.Message()
        for name, value in response.headers.items():
            message[name] = value
        answer: Any = addinfourl(io.BytesIO(response.body), message, request.url, response.status)
        answer.msg = "injected"
        return cast(addinfourl, answer)

    with patch.object(urllib.request.AbstractHTTPHandler, "do_open", do_open):
        yield


@contextmanager
def _httpx(servers: HttpServers) -> Iterator[None]:
    import httpx

    def answered(asked: httpx.Request, body: bytes) -> httpx.Response:
        request = _request(asked.method, str(asked.url), dict(asked.headers), body)
        failures = Failures(
            refused=lambda: httpx.ConnectError("connection refused", request=asked),
            throttled=_throttled,
            no_answer=lambda: httpx.ReadTimeout("read timed out", request=asked),
        )
        response = _answered(servers, request, failures)
        return httpx.Response(
            response.status, headers=dict(response.headers), content=response.body, request=asked
        )

    def send(_: Any, asked: httpx.Request) -> httpx.Response:
        return answered(asked, asked.read())

    async def send_async(_: Any, asked: httpx.Request) -> httpx.Response:
        return answered(asked, await asked.aread())

    with (
        patch.object(httpx.HTTPTransport, "handle_request", send),
        patch.object(httpx.AsyncHTTPTransport, "handle_async_request", send_async),
    ):
        yield


class _Answered(Exception):
    """A fault that the library does not report as an error: an HTTP status is an answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def _throttled() -> _Answered:
    return _Answered(Response(HTTPStatus.TOO_MANY_REQUESTS, {}, b"{}"))


def _answered(servers: HttpServers, request: Request, failures: Failures) -> Response:
    try:
        return servers.send(request, failures)
    except _Answered as answer:
        return answer.response


def _request(method: str, url: str, headers: Any, body: Any) -> Request:
    if hasattr(body, "read"):
        body = body.read()
    data = body.encode() if isinstance(body, str) else bytes(body or b"")
    named = {
        str(name).lower(): value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for name, value in dict(headers or {}).items()
    }
    return Request(method.upper(), url, named, data)
