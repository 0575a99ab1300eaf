"""HTTP requests and answers, in the shapes that Lambda gives and takes.

A function URL and an HTTP API send payload format 2.0. An HTTP API may send 1.0, as a REST API
does, and a load balancer (ALB) sends a shape close to that.
"""

import base64
import binascii
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NotRequired, Self, TypedDict
from urllib.parse import urlencode

from msgspec import Struct

_DEFAULT_STAGE = "$default"
"""Stage of an HTTP API that is no part of its paths; function URLs have only this one."""


class LambdaAnswer(TypedDict):
    """The function's answer. A load balancer may want each header with a list of values."""

    statusCode: int
    headers: dict[str, str]
    body: str
    multiValueHeaders: NotRequired[dict[str, list[str]]]
    statusDescription: NotRequired[str]


class Request(Struct, frozen=True):
    """A request: the method and the names of headers in one case, path and query as sent.

    The values of a header that was sent several times are joined by commas.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Read Lambda's event.

        Raises:
            KeyError, TypeError, ValueError: it is no request.
        """
        path, query = _text(event["rawPath"] if _is_v2(event) else event["path"]), _query(event)
        headers = {
            name: ",".join(map(_text, values))
            for name, values in (event.get("multiValueHeaders") or {}).items()
        } or (event.get("headers") or {})
        return cls(
            method=route_of(event)[0],
            path=f"{path}?{query}" if query else path,
            headers={_text(name).lower(): _text(value) for name, value in headers.items()},
            body=_body(event),
        )


def route_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return a request's method, in capitals, and its path without outer slashes, query and stage.

    Raises:
        KeyError, TypeError: it is no request.
    """
    context = event["requestContext"]
    if _is_v2(event):
        path, method = _text(event["rawPath"]), context["http"]["method"]
    else:
        path, method = _text(event["path"]), event["httpMethod"]
    # The paths of an HTTP API begin with the stage, except on some domain names of its own. Those
    # of a REST API never do.
    may_be_first = _is_v2(event) or "version" in event
    stage = context.get("stage") if may_be_first else None
    if stage not in (None, _DEFAULT_STAGE) and f"{path}/".startswith(f"/{stage}/"):
        path = path.removeprefix(f"/{stage}")
    return _text(method).upper(), path.strip("/")


def body_bytes(event: Mapping[str, Any]) -> int:
    """Return the size of a body without decoding it.

    Of a body that is text, this is its number of characters, which is a lower bound.
    """
    text = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return len(text)
    return len(text) * 3 // 4 - text[-2:].count("=")


def answer(status: int, body: str = "", **headers: str) -> LambdaAnswer:
    """Return an answer in text. No answer tells a sender why it was refused."""
    headers = {"content-type": "text/plain", **headers}
    return {"statusCode": status, "headers": headers, "body": body}


def answer_to(event: Mapping[str, Any], given: LambdaAnswer) -> LambdaAnswer:
    """Return an answer in the shape that the sender of an event takes."""
    if "elb" not in (event.get("requestContext") or {}):
        return given
    status = given["statusCode"]
    found: LambdaAnswer = {**given, "statusDescription": f"{status} {HTTPStatus(status).phrase}"}
    if "multiValueHeaders" in event:  # an attribute of the target group decides on both directions
        found["multiValueHeaders"] = {name: [value] for name, value in given["headers"].items()}
    return found


# Callers: what an authorizer says of the sender. Nothing here is read from the request itself.


def claims_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claims of a verified JWT: of a JWT authorizer, or of a Cognito user pool."""
    found = _authorizer(event)
    return _mapping(_mapping(found.get("jwt") or found).get("claims"))


def authorizer_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the context that a Lambda authorizer returned."""
    found = _authorizer(event)
    return _mapping(found.get("lambda")) if _is_v2(event) else found


def iam_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the id of the IAM principal that signed a request, and its Cognito identity.

    The id of a role is followed by a colon and the session's name. Both are empty without one.
    """
    if _is_v2(event):
        found = _mapping(_authorizer(event).get("iam"))
        cognito = _mapping(found.get("cognitoIdentity")).get("identityId")
        return str(found.get("userId") or ""), str(cognito or "")
    found = _mapping(event["requestContext"].get("identity"))
    # `user` is set for signed requests alone.
    return str(found.get("user") or ""), str(found.get("cognitoIdentityId") or "")


def _authorizer(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(event["requestContext"].get("authorizer"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_v2(event: Mapping[str, Any]) -> bool:
    return "httpMethod" not in event


def _query(event: Mapping[str, Any]) -> str:
    if _is_v2(event):
        return _text(event.get("rawQueryString") or "")
    several = event.get("multiValueQueryStringParameters")
    return urlencode(several or event.get("queryStringParameters") or {}, doseq=True)


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
        raise TypeError(f"{type(value).__name__} where a request of Lambda has a text")
    return value if value.isascii() else value.encode(errors="replace").decode()
