"""The HTTP libraries: urllib3 (and requests, which uses it), httpx, and urllib.request."""

import email.message
import importlib.util
import io
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from unittest.mock import patch
from urllib.response import addinfourl

import urllib3
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, NewConnectionError, ReadTimeoutError

from redelivery.boundary.call import Failures
from redelivery.boundary.http import HttpServers, Request, Response

_TOO_MANY = 429


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
            throttled=lambda: _Answered(Response(_TOO_MANY, {}, b"{}")),
            no_answer=lambda: ReadTimeoutError(pool, url, "read timed out"),
        )
        return _urllib3_response(_answered(servers, request, failures), method, options)

    with patch.object(HTTPConnectionPool, "urlopen", urlopen):
        yield


def _urllib3_response(
    response: Response, method: str, options: dict[str, Any]
) -> urllib3.HTTPResponse:
    return urllib3.HTTPResponse(
        io.BytesIO(response.body),
        response.headers,
        response.status,
        reason="",
        preload_content=options.get("preload_content", True),
        decode_content=options.get("decode_content", True),
        request_method=method,
    )


@contextmanager
def _urllib(servers: HttpServers) -> Iterator[None]:
    def do_open(_: Any, __: Any, asked: urllib.request.Request, **___: Any) -> addinfourl:
        headers = {**asked.headers, **asked.unredirected_hdrs}
        request = _request(asked.get_method(), asked.full_url, headers, asked.data)
        failures = Failures(
            refused=lambda: urllib.error.URLError("connection refused"),
            throttled=lambda: _Answered(Response(_TOO_MANY, {}, b"{}")),
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
            throttled=lambda: _Answered(Response(_TOO_MANY, {}, b"{}")),
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


def _answered(servers: HttpServers, request: Request, failures: Failures) -> Response:
    try:
        return servers.send(request, failures)
    except _Answered as answer:
        return answer.response


def _request(method: str, url: str, headers: Any, body: Any) -> Request:
    if hasattr(body, "read"):
        body = body.read()
    data = body.encode() if isinstance(body, str) else bytes(body or b"")
    named = {str(name).lower(): _text(value) for name, value in dict(headers or {}).items()}
    return Request(method.upper(), url, named, data)


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
