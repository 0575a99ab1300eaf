"""AWS and HTTP calls, intercepted where the SDK would serialize and urllib3 would connect.

The SDK's own retries are real. Serialization is left out: it was more than a third of the time of
a run, and the tests on the embedded AWS cover it.
"""

import base64
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch
from uuid import uuid4

import msgspec
from botocore.awsrequest import AWSResponse
from botocore.client import BaseClient
from botocore.exceptions import ClientError, ReadTimeoutError
from urllib3 import HTTPResponse, PoolManager
from urllib3.exceptions import ReadTimeoutError as NoHttpAnswer
from urllib3.util import parse_url

from demo.payment_sandbox import Request, Response
from once.names import Record

if TYPE_CHECKING:
    from types import FrameType

OURS = ("once.", "functions.")
_numbers = count()
PROVIDER = "payments"


class ServiceError(Exception):
    """An error response.

    Args:
        code: the service's error code, such as `ThrottlingException`.
        status: HTTP status.
        more: further fields of the response, such as `CancellationReasons`.
    """

    def __init__(self, code: str, status: int = 400, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.status = status
        self.more = more


class NoAnswer(Exception):
    """The caller receives no answer."""


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt of a call.

    Attributes:
        service: `dynamodb`, `sqs`, `sns`, `email`, `scheduler`, `secretsmanager`, `s3`
            or `payments`.
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

    def call(client: BaseClient, operation: str, parameters: Mapping[str, Any]) -> Any:
        return _AwsCall(client, operation, parameters).result(respond)

    def send_http(
        _: PoolManager, method: str, url: str, *, headers: Mapping[str, str], **more: Any
    ) -> HTTPResponse:
        try:
            return _http_response(respond(_http_call(method, url, headers, more.get("body"))))
        except NoAnswer:
            raise NoHttpAnswer(cast(Any, None), url, "no answer") from None

    aws = patch.object(BaseClient, "_make_api_call", call)
    with aws, patch.object(PoolManager, "urlopen", send_http):
        yield


def new_owners(call: Call) -> Iterator[str]:
    """Yield the owner tokens that a transaction writes into pending records."""
    if call.operation != "TransactWriteItems":
        return
    for [entry] in map(dict.values, call.request["TransactItems"]):
        values = entry.get("ExpressionAttributeValues", {})
        if token := entry.get("Item", {}).get(Record.OWNER) or values.get(f":new_{Record.OWNER}"):
            yield token["S"]


def site(library: str = "") -> str:
    """Return the innermost running function of the service, as `module.function`.

    With a library, the innermost one that called it: a service may implement its transport.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    is_outside = not library
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        is_outside = is_outside or module.startswith(library)
        if is_outside and module.startswith(OURS):
            return f"{module}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "unknown"


class _AwsCall:
    """One call of a client, with the retries that the client is configured for."""

    def __init__(self, client: Any, operation: str, parameters: Mapping[str, Any]) -> None:
        self._client, self._model = client, client._service_model.operation_model(operation)  # noqa: SLF001
        tokens = {name: str(uuid4()) for name in self._model.idempotent_members}
        # Its own copy: callers may change theirs later. The entries of a commit are JSON already.
        self._request = msgspec.json.encode(tokens | dict(parameters))
        self._name = str(next(_numbers))
        self._context: dict[str, Any] = {"client_config": client.meta.config}

    def result(self, respond: Respond) -> Any:
        """Return the answer of the last attempt, or raise the SDK's error."""
        endpoint, request = self._client._endpoint, {"context": self._context}  # noqa: SLF001
        for attempts in count(1):
            response, error = self._attempt(respond)
            # A success is never retried: to ask the SDK took a tenth of a run.
            is_success = response is not None and "Error" not in response[1]
            if is_success or not endpoint._needs_retry(  # noqa: SLF001
                attempts, self._model, request, response, error
            ):
                break
        if response is None:
            raise cast(Exception, error)
        return self._checked(*response)

    def _attempt(self, respond: Respond) -> tuple[tuple[AWSResponse, Any] | None, Any]:
        service = self._client.meta.service_model.endpoint_prefix
        request = msgspec.json.decode(self._request)
        call = Call(service, self._model.name, request, self._name, site())
        try:
            status, answer = 200, msgspec.json.decode(msgspec.json.encode(respond(call)))
        except ServiceError as error:
            told = {"Code": error.code, "Message": error.code}
            status, answer = error.status, {"Error": told, **error.more}
        except NoAnswer:
            return None, ReadTimeoutError(endpoint_url=service)
        headers: Any = {}
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers}
        http = AWSResponse("", status, headers, cast(Any, None))
        return (http, {**answer, "ResponseMetadata": metadata}), None

    def _checked(self, http: AWSResponse, answer: Any) -> Any:
        """Return an answer that is no error, and tell the client's retries of it."""
        event = f"after-call.{self._client.meta.service_model.service_id.hyphenize()}"
        self._client.meta.events.emit(
            f"{event}.{self._model.name}",
            http_response=http,
            parsed=answer,
            model=self._model,
            context=self._context,
        )
        if error := answer.get("Error"):
            kind = self._client.exceptions.from_code(error["Code"])
            raise cast(ClientError, kind(answer, self._model.name))
        if self._model.name == "GetObject":
            return {**answer, "Body": io.BytesIO(base64.b64decode(answer["Body"]))}
        return answer


def _http_call(method: str, url: str, headers: Mapping[str, str], body: str | None) -> Call:
    asked = Request(
        method=method,
        target=parse_url(url).request_uri,
        authorization=headers.get("Authorization", ""),
        idempotency_key=headers.get("Idempotency-Key"),
        body=body or "",
        client_port=0,
    )
    operation = f"{asked.method} {'/'.join(asked.path.split('/')[:3])}"
    return Call(PROVIDER, operation, asked, "", site("stripe."))


def _http_response(answer: Response) -> HTTPResponse:
    headers = {"Content-Type": "application/json"}
    if answer.replayed:
        headers["Idempotent-Replayed"] = "true"
    return HTTPResponse(json.dumps(answer.body).encode(), headers, int(answer.status))
