"""HTTP requests and answers, in the payload format 2.0 of function URLs and HTTP APIs."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict


class LambdaAnswer(TypedDict):
    """The function's answer, as function URLs and HTTP APIs read it."""

    statusCode: int
    headers: dict[str, str]
    body: str


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
    def of(cls, event: Mapping[str, Any]) -> "Request":
        """Read Lambda's event.

        Raises:
            KeyError, ValueError: it is not of payload format 2.0.
        """
        query = event.get("rawQueryString") or ""
        return cls(
            method=str(event["requestContext"]["http"]["method"]).upper(),
            path=event["rawPath"] + (f"?{query}" if query else ""),
            headers={str(n).lower(): str(v) for n, v in (event.get("headers") or {}).items()},
            body=_body(event),
        )

    @property
    def endpoint(self) -> str:
        """The name of the endpoint: the whole path without its slashes."""
        return self.path.partition("?")[0].strip("/")


def _body(event: Mapping[str, Any]) -> bytes:
    text = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return str(text).encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the body is not base64: {error}") from None


def answer(status: int, body: str = "") -> LambdaAnswer:
    """Return an answer. No answer tells a sender why it was refused."""
    return {"statusCode": status, "headers": {"content-type": "text/plain"}, "body": body}
