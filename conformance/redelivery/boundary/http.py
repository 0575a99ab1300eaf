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
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from redelivery.boundary.invocation import Call, Failures, NotSimulated, Record, Sent, current
from redelivery.subject import Answer

KEY_SECONDS = 24 * 60 * 60
_READS = ("GET", "HEAD", "OPTIONS")
_IDEMPOTENT = ("PUT", "DELETE")


@dataclass(frozen=True, slots=True)
class Response:
    """An answer by HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes


_JSON = {"content-type": "application/json"}
_KEY_CONFLICT = Response(400, _JSON, b'{"error": {"type": "idempotency_error"}}')
_THROTTLED = Response(HTTPStatus.TOO_MANY_REQUESTS, {}, b"{}")


class _Throttled(Exception):
    """A library does not report a status as an error: it is an answer."""


class Request:
    """An HTTP request; header names are lower case."""

    def __init__(self, method: str, url: str, headers: Any, body: Any) -> None:
        if hasattr(body, "read"):
            body = body.read()
        self.method, self.url = method.upper(), url
        self.body = body.encode() if isinstance(body, str) else bytes(body or b"")
        self.headers = {
            str(name).lower(): value.decode("latin-1") if isinstance(value, bytes) else str(value)
            for name, value in dict(headers or {}).items()
        }
        parts = urlsplit(url)
        self.target = f"{self.method} {parts.scheme}://{parts.netloc}{parts.path}"
        self.writes = self.method not in _READS

    @property
    def content(self) -> dict[str, Any]:
        """Its query and its body; a form is decoded."""
        text = self.body.decode("utf-8", "replace")
        form = "x-www-form-urlencoded" in self.headers.get("content-type", "")
        query = dict(parse_qsl(urlsplit(self.url).query))
        return {**query, "body": dict(parse_qsl(text)) if form else text}


@dataclass(slots=True)
class HttpServers:
    """Every HTTP server that the handler calls.

    Attributes:
        answers: the subject's; the first that matches is given.
    """

    answers: Sequence[Answer]
    _remembered: dict[str, tuple[float, bytes, Response]] = field(default_factory=dict)

    def send(
        self, request: Request, refused: Callable[[], Exception], no_answer: Callable[[], Exception]
    ) -> Response:
        """Pass the boundary, and answer. Raises one of these errors, or Killed."""
        invocation = current()
        if invocation is None:
            raise RuntimeError(f"the conformance kit itself calls {request.url}")
        if invocation.is_inside_the_sdk:
            raise NotSimulated
        writes, (method, _, place) = request.writes, request.target.partition(" ")
        call = Call(method, place, writes, touches=(request.target,) * writes)
        failures = Failures(refused, _Throttled, no_answer)
        try:
            answer: Response = invocation.make(
                call, lambda: self._answer(request, invocation.record), failures
            )
        except _Throttled:
            return _THROTTLED
        return answer

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
        response = Response(answer.status, _JSON, content)
        if request.writes:
            # An equal PUT or DELETE changes nothing more: RFC 9110, section 9.2.2.
            same = repr(request.content) if request.method in _IDEMPOTENT else ""
            record.send(Sent(request.target, request.content, same, float("inf")))
        if key:
            self._remembered[key] = (time.time(), request.body, response)
        return response


@contextmanager
def intercepted(servers: HttpServers) -> Iterator[None]:
    """Let the requests of every library pass the boundary."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(HTTPConnectionPool, "urlopen", _urlopen(servers)))
        opened = patch.object(urllib.request.AbstractHTTPHandler, "do_open", _do_open(servers))
        stack.enter_context(opened)
        if importlib.util.find_spec("httpx"):
            stack.enter_context(_httpx(servers))
        yield


def _urlopen(servers: HttpServers) -> Callable[..., urllib3.HTTPResponse]:
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
        unreachable = NewConnectionError(cast(Any, pool), "connection refused")
        response = servers.send(
            Request(method, f"{pool.scheme}://{pool.host}{port}{path}", headers, body),
            refused=lambda: MaxRetryError(pool, url, unreachable),
            no_answer=lambda: ReadTimeoutError(pool, url, "read timed out"),
        )
        return urllib3.HTTPResponse(
            io.BytesIO(response.body),
            response.headers,
            response.status,
            reason="",
            preload_content=options.get("preload_content", True),
            decode_content=options.get("decode_content", True),
            request_method=method,
        )

    return urlopen


def _do_open(servers: HttpServers) -> Callable[..., addinfourl]:
    def do_open(_: Any, __: Any, asked: urllib.request.Request, **___: Any) -> addinfourl:
        headers = {**asked.headers, **asked.unredirected_hdrs}
        response = servers.send(
            Request(asked.get_method(), asked.full_url, headers, asked.data),
            refused=lambda: urllib.error.URLError("connection refused"),
            no_answer=lambda: TimeoutError("read timed out"),
        )
        message = email.message.Message()
        for name, value in response.headers.items():
            message[name] = value
        body = io.BytesIO(response.body)
        answer: Any = addinfourl(body, message, asked.full_url, response.status)
        answer.msg = "injected"
        return cast(addinfourl, answer)

    return do_open


@contextmanager
def _httpx(servers: HttpServers) -> Iterator[None]:
    import httpx

    def answered(asked: httpx.Request, body: bytes) -> httpx.Response:
        response = servers.send(
            Request(asked.method, str(asked.url), dict(asked.headers), body),
            refused=lambda: httpx.ConnectError("connection refused", request=asked),
            no_answer=lambda: httpx.ReadTimeout("read timed out", request=asked),
        )
        return httpx.Response(
            response.status, headers=dict(response.headers), content=response.body, request=asked
        )

    async def send_async(_: Any, asked: httpx.Request) -> httpx.Response:
        return answered(asked, await asked.aread())

    sync, asynchronous = httpx.HTTPTransport, httpx.AsyncHTTPTransport
    with (
        patch.object(sync, "handle_request", lambda _, asked: answered(asked, asked.read())),
        patch.object(asynchronous, "handle_async_request", send_async),
    ):
        yield
