"""Calls of the AWS SDK, intercepted where a client makes one.

The SDK's own retries lie below: a fault here is what remains after them. Only the loss of an answer
has a variant with a retry, since a repeated write may find its own first attempt."""

import base64
import copy
import datetime as dt
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, cast
from unittest.mock import patch
from uuid import uuid4

from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.response import StreamingBody
from botocore.session import Session

from redelivery.boundary.invocation import (
    FIFO_WINDOW_SECONDS,
    Call,
    Failures,
    Invocation,
    NotSimulated,
    Perform,
    Sent,
    current,
)
from redelivery.subject import Answer

_DEEPEST = 6
"""Levels of a made answer: some shapes contain themselves."""


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

_READ = re.compile(
    "(Batch|Transact)?(Get|List|Describe|Head|Query|Scan|Search|Select|Lookup|Receive|Retrieve|Rerank"
    "|Discover|Assume|Analyze|Calculate|Check|Classify|Compare|Contains|Converse|Count|Detect|Encrypt"
    "|Decrypt|ReEncrypt|Sign|Verify|Estimate|Evaluate|Generate|Infer|Is|Predict|Recognize|Suggest"
    "|Synthesize|Test|Translate|Validate)(?![a-z])"
)
"""Names of operations that look up or compute, and leave no state. AWS's models say of few of them
that they are `readonly`, and those of the JSON protocols have no other method than POST."""

_WRITE_ALL_THE_SAME = re.compile(
    r"(iam|apigateway|amplify\w*)\.Generate|cloudformation\.Detect|cognito-idp\.(Sign|Verify)|ses.*Verify"
    r"|license-manager\.Check|storagegateway\.Retrieve|location\.BatchEvaluate|apigateway\.Test"
    r"|elasticache\.Test|cognito-identity\.GetId|s3\.CreateSession"
)
_READ_ALL_THE_SAME = re.compile(
    r"bedrock-runtime\.(Invoke|Apply)|sagemaker-runtime\.InvokeEndpoint(?!Async)|kms\.Derive"
)
"""Exceptions from the names, methods and marks of the models."""

_NOT_AN_EFFECT = {
    *("sqs.DeleteMessage", "sqs.DeleteMessageBatch", "sqs.PurgeQueue"),
    *("sqs.ChangeMessageVisibility", "sqs.ChangeMessageVisibilityBatch"),
    *("cloudwatch.PutMetricData", "logs.PutLogEvents", "xray.PutTraceSegments"),
}
_STATE = ("dynamodb", "s3")
"""Services whose content is compared itself, so that their requests need no record."""


class Batch(NamedTuple):
    """An operation of several entries, each of which the service may refuse.

    `results` is the part of its answer with one result for each entry, and `failures` counts those
    that failed. Without them, the answer lists the ids of those that succeeded and failed.
    """

    entries: str
    single: str
    results: str = ""
    failures: str = ""


_BATCHES = {
    "sqs.SendMessageBatch": Batch("Entries", "SendMessage"),
    "sns.PublishBatch": Batch("PublishBatchRequestEntries", "Publish"),
    "events.PutEvents": Batch("Entries", "PutEvents", "Entries", "FailedEntryCount"),
    "kinesis.PutRecords": Batch("Records", "PutRecord", "Records", "FailedRecordCount"),
    "firehose.PutRecordBatch": Batch("Records", "PutRecord", "RequestResponses", "FailedPutCount"),
}
_BATCH_WRITE = "dynamodb.BatchWriteItem"

MINUTE, DAY, EVER = 60, 24 * 60 * 60, float("inf")

_TOKEN = re.compile(
    r"(Amzn)?[Cc]lient(Request)?Token|[Ii]dempotencyToken|UniqueRequestToken|CallerReference"
)
"""Parameters that identify a request, besides those that botocore's models mark."""

_TOKENS: Mapping[str, tuple[float, str]] = {
    # https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    "dynamodb": (10 * MINUTE, "IdempotentParameterMismatchException"),
    # https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
    "ec2": (DAY, "IdempotentParameterMismatch"),
    # https://docs.aws.amazon.com/athena/latest/APIReference/API_StartQueryExecution.html
    "athena": (DAY, "InvalidRequestException"),
    # https://docs.aws.amazon.com/AmazonECS/latest/APIReference/ECS_Idempotency.html
    "ecs": (DAY, "ConflictException"),
    # https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html
    "secretsmanager": (EVER, "ResourceExistsException"),
    # https://docs.aws.amazon.com/step-functions/latest/apireference/API_RedriveExecution.html
    "stepfunctions": (15 * MINUTE, ""),
}
"""Seconds for which a service remembers a token and answers as it did first; and its error if the
token comes with other parameters. A day, without an error, where AWS does not document it."""

_RECOGNISED: Mapping[str, tuple[tuple[str, ...], float]] = {
    # A second start with the name and input of a running execution is answered as the first. Of a
    # closed one, the second answer is ExecutionAlreadyExists, until the name is free after 90 days.
    # Of an express workflow, each start begins another execution:
    # https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
    "stepfunctions.StartExecution": (("name",), 90 * DAY),
    # A deduplication id is answered with success for five minutes, and is no second message:
    # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html,
    # https://docs.aws.amazon.com/sns/latest/api/API_Publish.html (`FIFO_WINDOW_SECONDS`)
    # https://docs.aws.amazon.com/sns/latest/api/API_CreateTopic.html
    "sns.CreateTopic": (("Name",), EVER),
    # https://docs.aws.amazon.com/sns/latest/api/API_Subscribe.html
    "sns.Subscribe": (("TopicArn", "Protocol", "Endpoint"), EVER),
    # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
    "sqs.CreateQueue": (("QueueName",), EVER),
    # https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html
    "events.PutRule": (("Name", "EventBusName"), EVER),
    # https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html
    "ssm.PutParameter": (("Name", "Value"), EVER),
}
"""Operations that AWS answers the same way, without a second effect, if these parameters are equal
and were given; and for how long."""

_SETTERS = ("Update", "Set", "Tag", "Untag", "Delete", "Disable", "Enable")
"""Verbs of operations that set a state: an equal request changes nothing more."""

_TARGETS = (
    *("TableName", "QueueUrl", "TopicArn", "TargetArn", "FunctionName", "Bucket", "SecretId"),
    *("EventBusName", "StreamName", "DeliveryStreamName", "stateMachineArn"),
)
_KEYS = ("Id", "MessageDeduplicationId", "MessageGroupId", "ReceiptHandle")

_NOT_FOUND = {
    "AWS.SimpleQueueService.NonExistentQueue": "queue",
    "QueueDoesNotExist": "queue",
    "NoSuchBucket": "bucket",
    "NotFound": "topic",
}

_STATEMENT = re.compile(
    r'\s*(\w+)\b.*?(?:FROM|INTO|UPDATE)\s+"?([\w.-]+)', re.IGNORECASE | re.DOTALL
)
"""A PartiQL statement: its verb and its table."""


@dataclass(frozen=True, slots=True)
class Names:
    """`source` and `dlq` by the URLs of these queues; the key attributes by table; the answers."""

    queues: Mapping[str, str]
    keys: Mapping[str, tuple[str, ...]]
    answers: Sequence[Answer] = ()


@dataclass(frozen=True, slots=True)
class AwsRequest:
    """A request to AWS, by botocore's name of the service and the API's of the operation.

    The parameters are as the handler gave them: of a resource, their values are Python's.
    """

    service: str
    operation: str
    parameters: Mapping[str, Any]
    names: Names
    is_marked_as_read: bool = False
    is_of_express_workflow: bool = False

    @property
    def name(self) -> str:
        """Service and operation, as `dynamodb.PutItem`."""
        return f"{self.service}.{self.operation}"

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        if statements := self._statements:
            return any(verb.upper() != "SELECT" for verb, _ in statements)
        if _WRITE_ALL_THE_SAME.match(self.name) or _READ_ALL_THE_SAME.match(self.name):
            return bool(_WRITE_ALL_THE_SAME.match(self.name))
        return not (self.is_marked_as_read or _READ.match(self.operation))

    @property
    def is_eventual(self) -> bool:
        """Whether it is a read that may return a state before the latest write."""
        if self.service != "dynamodb" or self.writes or "Transact" in self.operation:
            return False
        wanted = [self.parameters, *self.parameters.get("RequestItems", {}).values()]
        return not any(part.get("ConsistentRead") for part in wanted)

    @property
    def is_divisible(self) -> bool:
        """Whether the service may process a part of it."""
        return self.name in _BATCHES or self.name == _BATCH_WRITE

    def token(self, marked: Iterable[str]) -> tuple[str, ...]:
        """Return what the service recognises a repeated request by; empty without a token.

        `marked` are the parameters that botocore's model of the operation marks as tokens.
        """
        members = {*marked, *filter(_TOKEN.fullmatch, self.parameters)}
        found = [str(self.parameters[name]) for name in sorted(members)]
        return (self.name, *found) if found else ()

    def undeclared(self, code: str) -> Iterator[str]:
        """Yield what declares the resource that it did not find, if that is why it failed."""
        name = self._resource
        if self.service == "dynamodb" and code == "ResourceNotFoundException":
            tables = dict.fromkeys(item.partition(" ")[0] for item, _ in self._items())
            key = ":".join(plain(self.parameters.get("Key", {}))) or "KEY"
            yield from (
                f"--table {table}:{key}" for table in tables if table not in self.names.keys
            )
        elif code in _NOT_FOUND:
            yield f"--{_NOT_FOUND[code]} {name or self.parameters.get('QueueName', 'NAME')}"
        elif self.service == "s3" and code in {"404", "NoSuchKey"} and "Key" in self.parameters:
            yield f"the object {name}/{self.parameters['Key']}, by `set_up` of a Subject"
        elif self.service not in {"dynamodb", "s3", "sns", "sqs"}:
            yield f"what {self.name} needs, by `set_up` of a Subject, or its answer, by `answers`"

    def without_the_last(self) -> tuple[dict[str, Any], Callable[[Any], dict[str, Any]]]:
        """Return the parameters of a batch without its last entry, and what completes the answer.

        The parameters are empty if no entry is left.
        """
        if self.name == _BATCH_WRITE:
            requests = {
                table: [*entries] for table, entries in self.parameters["RequestItems"].items()
            }
            table = [*requests][-1]
            last = requests[table].pop()
            rest = {name: entries for name, entries in requests.items() if entries}
            unprocessed = {"UnprocessedItems": {table: [last]}}
            kept = {**self.parameters, "RequestItems": rest} if rest else {}
            return kept, lambda answer: {**answer, **unprocessed}
        batch = _BATCHES[self.name]
        *entries, last = self.parameters[batch.entries]
        kept = {**self.parameters, batch.entries: entries} if entries else {}
        if batch.results:
            error = {"ErrorCode": "InternalFailure", "ErrorMessage": "injected"}
            return kept, lambda answer: {
                **answer,
                batch.results: [*answer.get(batch.results, ()), error],
                batch.failures: 1,
            }
        failed = {"Id": last["Id"], "Code": "InternalError", "SenderFault": False}
        return kept, lambda answer: {"Successful": [], **answer, "Failed": [failed]}

    def is_of_source(self, operation: str) -> bool:
        """Whether it is an operation, or its batch, on the source queue."""
        return self.operation.startswith(operation) and self._queue == "source"

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
        batch = _BATCHES.get(self.name)
        entries = self.parameters[batch.entries] if batch else [None]
        operation = batch.single if batch else self.operation
        return tuple(dict.fromkeys(self._sent_to(operation, entry) for entry in entries))

    def sent(self, answer: Mapping[str, Any]) -> Iterator[Sent]:
        """Yield what it sent, after its answer; entries that failed in a batch are left out."""
        if not self.writes or self.name in _NOT_AN_EFFECT or self.service in _STATE:
            return
        if self._queue:
            return  # to source or DLQ: the fate of a message, not an effect
        batch = _BATCHES.get(self.name)
        if batch is None:
            yield self._one(self.parameters, self.operation)
            return
        results = answer.get(batch.results, ())
        done = {entry.get("Id") for entry in answer.get("Successful", ())}
        for number, entry in enumerate(self.parameters[batch.entries]):
            result = results[number] if number < len(results) else {}
            refused = "ErrorCode" in result if batch.results else entry["Id"] not in done
            if not refused:
                yield self._one(entry, batch.single)

    def _one(self, content: Mapping[str, Any], operation: str) -> Sent:
        named = {k: v for k, v in content.items() if k not in (*_KEYS, *_TARGETS)}
        members, seconds = _RECOGNISED.get(self.name, ((), 0.0))
        if members and members[0] in content and not self.is_of_express_workflow:
            identity = repr([content.get(name) for name in members])
        elif operation.startswith(_SETTERS):
            identity, seconds = repr(sorted(content.items(), key=str)), EVER
        else:  # a deduplication id. Without one, a FIFO queue takes the body's hash.
            body = content.get("MessageBody", content.get("Message", ""))
            by_content = str(body) if self._resource.endswith(".fifo") else ""
            identity = str(content.get("MessageDeduplicationId", by_content))
            seconds = FIFO_WINDOW_SECONDS
        return Sent(self._sent_to(operation, content), plain(named), identity, seconds)

    def _sent_to(self, operation: str, content: Mapping[str, Any] | None = None) -> str:
        name = operation.removesuffix("Batch")
        bus = str((content or {}).get("EventBusName", "default")).rpartition("/")[2]
        resource = bus if name == "PutEvents" else self._resource
        return f"{self.service}.{name} {resource}".strip()

    @property
    def _queue(self) -> str:
        return self.names.queues.get(str(self.parameters.get("QueueUrl", "")), "")

    @property
    def _resource(self) -> str:
        found = next((self.parameters[name] for name in _TARGETS if name in self.parameters), "")
        return str(found).rpartition("/")[2].rpartition(":")[2]

    @property
    def _statements(self) -> list[tuple[str, str]]:
        """Verb and table of its PartiQL statements."""
        parts = [self.parameters, *self.parameters.get("TransactStatements", ())]
        texts = [part.get("Statement") for part in [*parts, *self.parameters.get("Statements", ())]]
        found = [_STATEMENT.match(text) for text in texts if isinstance(text, str)]
        return [(match[1], match[2]) for match in found if match]

    def _items(self) -> Iterator[tuple[str, bool]]:
        """Yield each item that it addresses, and whether it may change it."""
        for verb, table in self._statements:
            yield table, verb.upper() != "SELECT"
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


def remembered(token: tuple[str, ...]) -> str:
    """Return for how long a service is taken to remember a request token, as a sentence."""
    name = token[0]
    seconds, _ = _TOKENS.get(name.partition(".")[0], (DAY, ""))
    how_long = "for ever" if seconds == EVER else f"for {seconds / MINUTE:.0f} minutes"
    return f"the token of {name} is taken to be remembered {how_long}"


class UnreadableRequest(BaseException):
    """The kit does not understand a request. No Exception: a handler would handle it."""


_call = BaseClient._make_api_call  # type: ignore[attr-defined]
_create = Session.create_client

_THROTTLED = {"dynamodb": "ProvisionedThroughputExceededException"}


@contextmanager
def intercepted(names: Names) -> Iterator[None]:
    """Let the calls of every client pass the boundary."""

    def call(client: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        invocation = current()
        if invocation is None:
            return _call(client, operation, parameters)
        service = client.meta.service_model
        model: Any = service.operation_model(operation)
        marked = model.idempotent_members
        is_read = model.http["method"] in {"GET", "HEAD"} or model._operation_model.get("readonly")
        parameters = {name: str(uuid4()) for name in marked} | parameters
        named = str(service.service_name)
        with invocation.inside_the_sdk():
            is_express = operation == "StartExecution" and _is_express(client, parameters)
        request = AwsRequest(named, operation, parameters, names, bool(is_read), is_express)
        try:
            streams = {v: v.tell() for v in parameters.values() if _is_rewindable(v)}
            described = Call(
                request.name,
                request.target,
                writes=request.writes,
                # botocore repeats no call whose body cannot be read again.
                retried=request.writes
                and all(v in streams for v in parameters.values() if hasattr(v, "read")),
                touches=request.touches,
                acknowledges=request.is_of_source("DeleteMessage"),
                divisible=request.is_divisible,
                eventual=request.is_eventual,
            )
            token = request.token(marked)
        except Exception as error:
            _call(client, operation, parameters)  # raises if the parameters are wrong
            raise UnreadableRequest(f"{request.name}: {error!r}") from error

        def send(parameters: Mapping[str, Any]) -> Any:
            for stream, position in streams.items():
                stream.seek(position)
            with invocation.inside_the_sdk():
                return _sent(client, request, dict(parameters))

        def perform() -> Any:
            return _answered(client, request, token, send, invocation)

        def partly() -> Any:
            kept, complete = request.without_the_last()
            answer = send(kept) if kept else {"ResponseMetadata": {"HTTPStatusCode": 200}}
            completed = complete(answer)
            for sent in request.sent(completed):
                invocation.record.send(sent)
            return completed

        return invocation.make(described, perform, _failures(client, request, partly))

    def create(session: Session, *args: Any, **options: Any) -> Any:
        # An endpoint of its own, such as that of an emulator, is AWS all the same.
        return _create(session, *args, **{**options, "endpoint_url": None})

    with (
        patch.object(BaseClient, "_make_api_call", call),
        patch.object(Session, "create_client", create),
    ):
        yield


def _is_express(client: BaseClient, parameters: Mapping[str, Any]) -> bool:
    machine = {"stateMachineArn": parameters.get("stateMachineArn")}
    with suppress(Exception):  # the handler's own call tells what is wrong
        return bool(_call(client, "DescribeStateMachine", machine)["type"] == "EXPRESS")
    return False


def _sent(client: BaseClient, request: AwsRequest, parameters: dict[str, Any]) -> Any:
    """Send a request to the simulation. Return what is declared for it, or made, without one."""
    for answer in request.names.answers:
        if answer.url == request.name:
            return copy.deepcopy(answer.body)
    try:
        # botocore puts streams into the parameters that it is given.
        return _call(client, request.operation, parameters)
    except ClientError as error:
        if error.response["Error"].get("Message") != "Not yet implemented":  # moto's
            raise
    except (NotSimulated, NotImplementedError, ModuleNotFoundError):
        pass
    return _shaped(client.meta.service_model.operation_model(request.operation).output_shape)


def _shaped(shape: Any, depth: int = 0) -> Any:
    """Return an answer of a shape of botocore's models, of an operation that is not simulated."""
    if shape is None or depth > _DEEPEST:
        return {}
    if shape.type_name == "structure":
        members = [*shape.members.items()][: 1 if shape.is_tagged_union else None]
        return {name: _shaped(member, depth + 1) for name, member in members}
    if shape.type_name == "list":
        return [_shaped(shape.member, depth + 1)]
    if shape.type_name == "blob" and shape.serialization.get("streaming"):
        return StreamingBody(io.BytesIO(b"{}"), len(b"{}"))
    values: dict[str, Any] = {"map": {}, "blob": b"", "boolean": False, "float": 1.0, "double": 1.0}
    values |= dict.fromkeys(("integer", "long"), 1)
    if shape.type_name == "timestamp":
        return dt.datetime.now(dt.UTC)
    return values.get(shape.type_name, next(iter(getattr(shape, "enum", ())), "text"))


def _is_rewindable(value: Any) -> bool:
    can_seek = getattr(value, "seekable", lambda: hasattr(value, "seek"))
    return hasattr(value, "read") and bool(can_seek())


def _answered(
    client: BaseClient,
    request: AwsRequest,
    token: tuple[str, ...],
    send: Callable[[Mapping[str, Any]], Any],
    invocation: Invocation,
) -> Any:
    """Send a request, unless the service recognises it or a read is stale; record it."""
    record, content = invocation.record, repr(sorted(request.parameters.items(), key=str))
    since, first, known = record.answers.get(token, (0.0, "", None))
    seconds, mismatch = _TOKENS.get(request.service, (DAY, ""))
    if known is not None and time.time() - since < seconds:
        if content != first and mismatch:
            raise _client_error(client, request.operation, mismatch)
        return known
    try:
        answer = send(request.parameters)
    except ClientError as error:
        record.undeclared += request.undeclared(error.response["Error"]["Code"])
        raise
    if request.is_eventual:
        earlier = record.reads.setdefault(f"{request.name} {content}", copy.deepcopy(answer))
        if record.is_stale and _content(earlier) != _content(answer):
            invocation.plan.delivered = True
            invocation.tell(f"{request.name} {request.target}: answered as before the last write")
            return copy.deepcopy(earlier)
    record.requeued += request.is_of_source("SendMessage")
    for sent in request.sent(answer):
        record.send(sent)
    if token:
        record.answers[token] = (time.time(), content, answer)
    return answer


def _content(answer: Mapping[str, Any]) -> Any:
    return {name: value for name, value in answer.items() if name != "ResponseMetadata"}


def _client_error(client: BaseClient, operation: str, code: str, **more: Any) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "injected by the conformance kit"},
        "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {}, "RequestId": "injected"},
        **more,
    }
    kind: Any = client.exceptions.from_code(code)
    return cast(ClientError, kind(response, operation))


def _failures(client: BaseClient, request: AwsRequest, partly: Perform) -> Failures:
    url = str(client.meta.endpoint_url)

    def error(code: str, **more: Any) -> ClientError:
        return _client_error(client, request.operation, code, **more)

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
        partly=partly if request.is_divisible else None,
    )
