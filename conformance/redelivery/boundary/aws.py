"""Calls of the AWS SDK, intercepted where a client makes one.

The SDK's own retries lie below: a fault here is what remains after them. Only the loss of an answer
has a variant with a retry, since a repeated write may find its own first attempt.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch
from uuid import uuid4

from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from redelivery.boundary.aws_requests import AwsRequest, Names
from redelivery.boundary.call import Call, Failures, Record
from redelivery.boundary.threads import current


class UnreadableRequest(BaseException):
    """The kit does not understand a request. No Exception: a handler would handle it."""


_call = BaseClient._make_api_call  # type: ignore[attr-defined]

_THROTTLED = {"dynamodb": "ProvisionedThroughputExceededException"}


@contextmanager
def intercepted(names: Names) -> Iterator[None]:
    """Let the calls of every client pass the boundary."""
    answers: dict[tuple[str, ...], Any] = {}

    def call(client: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        invocation = current()
        if invocation is None:
            return _call(client, operation, parameters)
        members = client.meta.service_model.operation_model(operation).idempotent_members
        parameters = {name: str(uuid4()) for name in members} | parameters
        tokens = tuple(str(parameters[name]) for name in members)
        request = AwsRequest(_service(client), operation, parameters, names)
        record = invocation.record

        def perform() -> Any:
            key = (request.name, *tokens)
            if tokens and key in answers:  # the service knows the token of a repeated request
                return answers[key]
            # botocore puts streams, which are read once, into the parameters that it is given.
            answer = _call(client, operation, dict(parameters))
            _remember(record, request, answer)
            if tokens:
                answers[key] = answer
            return answer

        try:
            described = _described(request)
        except Exception as error:
            raise UnreadableRequest(f"{request.name}: {error!r}") from error
        return invocation.make(described, perform, _failures(client, request))

    with patch.object(BaseClient, "_make_api_call", call):
        yield


def _service(client: BaseClient) -> str:
    return str(client.meta.service_model.service_name)


def _described(request: AwsRequest) -> Call:
    return Call(
        request.name,
        request.target,
        writes=request.writes,
        retried=request.writes,
        touches=request.touches,
        acknowledges=request.acknowledges,
    )


def _remember(record: Record, request: AwsRequest, answer: Any) -> None:
    record.requeued += request.requeues
    for sent in request.sent(answer):
        record.send(sent)


def _failures(client: BaseClient, request: AwsRequest) -> Failures:
    url = str(client.meta.endpoint_url)

    def error(code: str, **more: Any) -> ClientError:
        response: Any = {
            "Error": {"Code": code, "Message": "injected by the conformance kit"},
            "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {}, "RequestId": "injected"},
            **more,
        }
        kind: Any = client.exceptions.from_code(code)
        return cast(ClientError, kind(response, request.operation))

    def conflicted() -> ClientError:
        entries = request.parameters.get("TransactItems")
        if entries is None:
            return error("TransactionConflictException")
        reasons = [{"Code": "TransactionConflict"}, *({"Code": "None"} for _ in entries[1:])]
        return error("TransactionCanceledException", CancellationReasons=reasons)

    return Failures(
        refused=lambda: EndpointConnectionError(endpoint_url=url),
        throttled=lambda: error(_THROTTLED.get(request.service, "ThrottlingException")),
        no_answer=lambda: ReadTimeoutError(endpoint_url=url),
        conflicted=conflicted if request.service == "dynamodb" and request.writes else None,
    )
