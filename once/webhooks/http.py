"""HTTP requests and answers, in the payload format 2.0 of function URLs and HTTP APIs."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

_DEFAULT_STAGE = "$default"
"""Stage of an HTTP API that is no part of its paths; function URLs have only this one."""


class LambdaAnswer(TypedDict):
    """The function's answer, as function URLs and HTTP APIs read it."""

    statusCode: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True, slots=True)
class RequestLine:
    """The first line of a request, which is read before its body.

    Attributes:
        method: the method, in capitals.
        path: the path with the query, as they were sent.
        endpoint: the name of the endpoint: the whole path without slashes, query and stage.
    """

    method: str
    path: str
    endpoint: str

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Read Lambda's event.

        Raises:
            KeyError, TypeError: it is not of payload format 2.0.
        """
        context, path = event["requestContext"], _text(event["rawPath"])
        query = _text(event.get("rawQueryString") or "")
        return cls(
            method=_text(context["http"]["method"]).upper(),
            path=f"{path}?{query}" if query else path,
            endpoint=_without_stage(path, context.get("stage")).strip("/"),
        )


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        method: the method, in capitals.
        path: the path with the query, as they were sent.
        headers: the headers, by their names in lower case.
        body: the bytes of the body.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Read Lambda's event.

        Raises:
            KeyError, TypeError, ValueError: it is not of payload format 2.0.
        """
        line, headers = RequestLine.of(event), event.get("headers") or {}
        return cls(
            method=line.method,
            path=line.path,
            headers={_text(name).lower(): _text(value) for name, value in headers.items()},
            body=_body(event),
        )


def body_bytes(event: Mapping[str, Any]) -> int:
    """Return the size of a body without decoding it.

    Of a body that is text, this is its number of characters, which is a lower bound.
    """
    text = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return len(text)
    return len(text) * 3 // 4 - text[-2:].count("=")


def answer(status: int, body: str = "", **headers: str) -> LambdaAnswer:
    """Return an answer. No answer tells a sender why it was refused."""
    return {
        "statusCode": status,
        "headers": {"content-type": "text/plain", **headers},
        "body": body,
    }


def _without_stage(path: str, stage: object) -> str:
    if stage in (None, _DEFAULT_STAGE):
        return path
    # The paths of an HTTP API begin with the stage, except on some domain names of its own.
    return path.removeprefix(f"/{stage}") if f"{path}/".startswith(f"/{stage}/") else path


def _body(event: Mapping[str, Any]) -> bytes:
    text = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return _text(text).encode()
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the body is not base64: {error}") from None


def _text(value: object) -> str:
    """Return a text that has a form in UTF-8: a lone surrogate of Lambda's JSON becomes `?`."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where payload format 2.0 has a text")
    return value if value.isascii() else value.encode(errors="replace").decode()
