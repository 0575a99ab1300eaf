"""Calls of the AWS SDK, intercepted where a client makes one.

The SDK's own retries lie below: a fault here is what remains after them. Only the loss of an answer
has a variant with a retry, since a repeated write may find its own first attempt."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast
from unittest.mock import patch
from uuid import uuid4

from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from redelivery.boundary.call import Call, Failures, Sent
from redelivery.boundary.invocation import current


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it.

    DynamoDB's typed form is decoded, sets are sorted, bytes become Base64.
    """
    if isinstance(value, Mapping):
        if len(value) == 1 and (kind := next(iter(value))) in _TYPES:
            return _TYPES[kind](value[kind])
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(entry) for entry in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if hasattr(value, "value") and type(value).__module__.startswith("boto3"):
        return plain(value.value)  # boto3's Binary
    return value if isinstance(value, str | int | float | bool | None) else str(value)


_TYPES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("S", "B", "L", "BOOL"), plain),
    **dict.fromkeys(("SS", "BS"), lambda values: plain(set(values))),
    "N": lambda value: plain(Decimal(str(value))),
    "NS": lambda values: sorted(plain(Decimal(str(value))) for value in values),
    "M": lambda values: {str(name): plain(value) for name, value in values.items()},
    "NULL": lambda _: None,
}
"""Decoders of DynamoDB's typed form."""

_READS = (
    *("Get", "List", "Describe", "BatchGet", "Query", "Scan", "Head", "Receive", "Lookup"),
    *("Search", "Select", "TransactGet", "Assume", "Decrypt", "Verify"),
)
_NOT_AN_EFFECT = {
    *("sqs.DeleteMessage", "sqs.DeleteMessageBatch", "sqs.PurgeQueue"),
    *("sqs.ChangeMessageVisibility", "sqs.ChangeMessageVisibilityBatch"),
    *("cloudwatch.PutMetricData", "logs.PutLogEvents", "xray.PutTraceSegments"),
}
_STATE = ("dynamodb", "s3")
"""Services whose content is compared itself, so that their requests need no record."""

_ENTRIES = {
    "sqs.SendMessageBatch": ("Entries", "Successful", "Id", "SendMessage"),
    "sns.PublishBatch": ("PublishBatchRequestEntries", "Successful", "Id", "Publish"),
    "events.PutEvents": ("Entries", "", "", "PutEvents"),
}
_TARGETS = ("TableName", "QueueUrl", "TopicArn", "TargetArn", "FunctionName", "Bucket", "SecretId")
_KEYS = ("Id", "MessageDeduplicationId", "MessageGroupId", "ReceiptHandle")


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the resources that a subject's requests address.

    Attributes:
        queues: `source` and `dlq` by the URLs of the source queue and its dead-letter queue.
        keys: the key attributes by table.
    """

    queues: Mapping[str, str]
    keys: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AwsRequest:
    """A request to AWS.

    Attributes:
        service: botocore's name of the service.
        operation: the API's name of the operation.
        parameters: as the handler gave them; of a resource, values are Python's.
        names: the subject's queues and keys.
    """

    service: str
    operation: str
    parameters: Mapping[str, Any]
    names: Names

    @property
    def name(self) -> str:
        """Service and operation, as `dynamodb.PutItem`."""
        return f"{self.service}.{self.operation}"

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return not self.operation.startswith(_READS)

    @property
    def acknowledges(self) -> bool:
        """Whether it deletes a message of the source queue."""
        return self.operation.startswith("DeleteMessage") and self._queue == "source"

    @property
    def requeues(self) -> bool:
        """Whether it sends a message to the source queue."""
        return self.operation.startswith("SendMessage") and self._queue == "source"

    @property
    def target(self) -> str:
        """The item or resource that it addresses; empty if it has no such parameter."""
        if self.service == "dynamodb":
            return ", ".join(dict.fromkeys(item for item, _ in self._items())) or self._resource
        return self._resource

    @property
    def touches(self) -> tuple[str, ...]:
        """The items, objects or targets that it changes."""
        if not self.writes or self.name in _NOT_AN_EFFECT:
            return ()
        if self.service == "dynamodb":
            return tuple(item for item, changed in self._items() if changed)
        if self.service == "s3":
            return (f"s3 {self._resource} Key={self.parameters.get('Key', '')}",)
        return (self._sent_to(self.operation),)

    def sent(self, answer: Mapping[str, Any]) -> Iterator[Sent]:
        """Yield what it sent, after its answer; entries that failed in a batch are left out."""
        if not self.writes or self.name in _NOT_AN_EFFECT or self.service in _STATE:
            return
        if self._queue:
            return  # to source or DLQ: the fate of a message, not an effect
        entries, successes, identifier, operation = _ENTRIES.get(self.name, ("", "", "", ""))
        if not entries:
            yield self._one(self.parameters, self.operation)
            return
        done = {entry[identifier] for entry in answer.get(successes, ())} if successes else None
        for entry in self.parameters[entries]:
            if done is None or entry[identifier] in done:
                yield self._one(entry, operation)

    def _one(self, content: Mapping[str, Any], operation: str) -> Sent:
        named = {k: v for k, v in content.items() if k not in (*_KEYS, *_TARGETS)}
        return Sent(self._sent_to(operation), plain(named), self._identity(content))

    def _identity(self, content: Mapping[str, Any]) -> str:
        """Return a deduplication id. Without one, a FIFO queue takes the body's hash."""
        body = content.get("MessageBody", content.get("Message", ""))
        by_content = str(body) if self._resource.endswith(".fifo") else ""
        return str(content.get("MessageDeduplicationId", by_content))

    def _sent_to(self, operation: str) -> str:
        name = operation.removesuffix("Batch")
        return f"{self.service}.{name} {self._resource}".strip()

    @property
    def _queue(self) -> str:
        return self.names.queues.get(str(self.parameters.get("QueueUrl", "")), "")

    @property
    def _resource(self) -> str:
        found = next((self.parameters[name] for name in _TARGETS if name in self.parameters), "")
        return str(found).rpartition("/")[2].rpartition(":")[2]

    def _items(self) -> Iterator[tuple[str, bool]]:
        """Yield each item that it addresses, and whether it may change it."""
        for entry in self.parameters.get("TransactItems", ()):
            if not isinstance(entry, Mapping):  # a library may have encoded it as JSON already
                entry = json.loads(bytes(memoryview(entry)))
            for kind, one in entry.items():
                yield self._item(one["TableName"], one), kind in {"Put", "Update", "Delete"}
        for table, requests in self.parameters.get("RequestItems", {}).items():
            for request in requests if self.writes else ():
                yield from ((self._item(table, one), True) for one in request.values())
        if "TableName" in self.parameters:
            yield self._item(self.parameters["TableName"], self.parameters), self.writes

    def _item(self, table: str, request: Mapping[str, Any]) -> str:
        """Return an item in the words of a report, as `orders order_id=o-1`."""
        values, key = plain(request.get("Key") or request.get("Item") or {}), self.names.keys
        named = (f"{name}={values[name]}" for name in key.get(table, ()) if name in values)
        return " ".join([table, *named])


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
        service = client.meta.service_model
        members = service.operation_model(operation).idempotent_members
        parameters = {name: str(uuid4()) for name in members} | parameters
        request = AwsRequest(str(service.service_name), operation, parameters, names)
        record, key = invocation.record, (request.name, *(str(parameters[m]) for m in members))

        def perform() -> Any:
            if key in answers:  # the service knows the token of a repeated request
                return answers[key]
            # botocore puts streams, which are read once, into the parameters that it is given.
            answer = _call(client, operation, dict(parameters))
            record.requeued += request.requeues
            for sent in request.sent(answer):
                record.send(sent)
            if members:
                answers[key] = answer
            return answer

        try:
            described = Call(
                request.name,
                request.target,
                writes=request.writes,
                retried=request.writes,
                touches=request.touches,
                acknowledges=request.acknowledges,
            )
        except Exception as error:
            raise UnreadableRequest(f"{request.name}: {error!r}") from error
        return invocation.make(described, perform, _failures(client, request))

    with patch.object(BaseClient, "_make_api_call", call):
        yield


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
