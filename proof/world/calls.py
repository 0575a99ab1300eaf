"""AWS and HTTP calls, intercepted where the SDK and `requests` would open a connection.

Serialization and the SDK's own retries are real.
"""

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

import requests
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ReadTimeoutError
from botocore.httpsession import URLLib3Session
from requests.adapters import HTTPAdapter

from demo.payment_sandbox.http_messages import Request, Response
from once.schema import Record
from proof.world.errors import ServiceError

if TYPE_CHECKING:
    from types import FrameType

OURS = ("once.", "functions.")
PROVIDER = "payments"
_EMAIL = "/v2/email/outbound-emails"


class NoAnswer(Exception):
    """The caller receives no answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt of a call.

    Attributes:
        service: `dynamodb`, `sqs`, `sns`, `email`, `secretsmanager` or `payments`.
        operation: the service's name for it.
        request: its parameters; for `payments` the HTTP request.
        name: shared by all attempts that the SDK makes of one call; empty outside of the SDK.
        site: the function of the service that makes it, as `module.function`.
    """

    service: str
    operation: str
    request: Any
    name: str
    site: str

    @property
    def place(self) -> str:
        """The call site, as `module.function service.operation`."""
        return f"{self.site} {self.service}.{self.operation}"


Respond = Callable[[Call], Any]
"""Returns the answer, or raises ServiceError or NoAnswer."""


@contextmanager
def connected(respond: Respond) -> Iterator[None]:
    """Answer every call of this Python process by `respond`: no client opens a connection."""

    def send(_: object, request: AWSPreparedRequest) -> AWSResponse:
        call = _aws_call(request)
        try:
            answer = respond(call)
        except ServiceError as error:
            return _aws_response(request.url, error.status, _error_body(call, error))
        except NoAnswer:
            raise ReadTimeoutError(endpoint_url=request.url) from None
        body = _publish_body(answer) if call.service == "sns" else json.dumps(answer)
        return _aws_response(request.url, HTTPStatus.OK, body)

    def send_http(_: object, request: requests.PreparedRequest, **__: Any) -> requests.Response:
        try:
            return _http_response(request, respond(_http_call(request)))
        except NoAnswer:
            raise requests.ReadTimeout from None

    with patch.object(URLLib3Session, "send", send), patch.object(HTTPAdapter, "send", send_http):
        yield


def new_owners(call: Call) -> Iterator[str]:
    """Yield the owner tokens that a transaction writes into pending records."""
    if call.operation != "TransactWriteItems":
        return
    for [entry] in map(dict.values, call.request["TransactItems"]):
        values = entry.get("ExpressionAttributeValues", {})
        if token := entry.get("Item", {}).get(Record.OWNER) or values.get(f":new_{Record.OWNER}"):
            yield token["S"]


def site() -> str:
    """Return the innermost running function of the service, as `module.function`."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(OURS):
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "unknown"


def _aws_call(request: AWSPreparedRequest) -> Call:
    headers: Any = request.headers
    url = urlsplit(request.url)
    service, text = str(url.hostname).partition(".")[0], _text(cast(Any, request.body) or "")
    name = _text(headers.get("amz-sdk-invocation-id", ""))
    if target := headers.get("X-Amz-Target"):
        operation = _text(target).rpartition(".")[2]
        return Call(service, operation, json.loads(text), name, site())
    if url.path == _EMAIL:
        return Call("email", "SendEmail", json.loads(text), name, site())
    form = dict(parse_qsl(text))
    return Call(service, form["Action"], form, name, site())


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _error_body(call: Call, error: ServiceError) -> str:
    if call.service == "sns":
        return (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{error.code}</Code>"
            f"<Message>{error.code}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
        )
    return json.dumps({"__type": error.code, "message": error.code, **error.more})


def _publish_body(answer: Mapping[str, Any]) -> str:
    def members(entries: Any) -> Iterator[str]:
        for entry in entries:
            yield f"<member>{''.join(f'<{k}>{v}</{k}>' for k, v in entry.items())}</member>"

    inner = "".join(f"<{k}>{''.join(members(v))}</{k}>" for k, v in answer.items())
    result = f"<PublishBatchResult>{inner}</PublishBatchResult>"
    return f"<PublishBatchResponse>{result}</PublishBatchResponse>"


class _Body(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def _aws_response(url: str, status: int, body: str) -> AWSResponse:
    headers: Any = {"content-type": "application/x-amz-json-1.0", "x-amzn-requestid": "r"}
    return AWSResponse(url, status, headers, cast(Any, _Body(body.encode())))


def _http_call(request: requests.PreparedRequest) -> Call:
    asked = Request(
        method=str(request.method),
        target=str(request.path_url),
        authorization=str(request.headers.get("Authorization", "")),
        idempotency_key=cast("str | None", request.headers.get("Idempotency-Key")),
        body=_text(cast(Any, request.body) or ""),
        client_port=0,
    )
    operation = f"{asked.method} {'/'.join(asked.path.split('/')[:3])}"
    return Call(PROVIDER, operation, asked, "", site())


def _http_response(request: requests.PreparedRequest, answer: Response) -> requests.Response:
    response = requests.Response()
    response.status_code, response.request = int(answer.status), request
    response.headers["Content-Type"] = "application/json"
    if answer.replayed:
        response.headers["Idempotent-Replayed"] = "true"
    response.raw = io.BytesIO(json.dumps(answer.body).encode())
    return response
