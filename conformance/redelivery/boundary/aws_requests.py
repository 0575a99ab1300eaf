"""Requests to AWS: what they address, change and send."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from redelivery.boundary.call import Sent
from redelivery.values import plain

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
            for kind, one in _decoded(entry).items():
                yield self._item(one["TableName"], one), kind in {"Put", "Update", "Delete"}
        for table, requests in self.parameters.get("RequestItems", {}).items():
            for request in requests if self.writes else ():
                yield from ((self._item(table, one), True) for one in request.values())
        if "TableName" in self.parameters:
            yield self._item(self.parameters["TableName"], self.parameters), self.writes

    def _item(self, table: str, request: Mapping[str, Any]) -> str:
        """Return an item in the words of a report, as `orders order_id=o-1`."""
        values = plain(request.get("Key") or request.get("Item") or {})
        return item_name(table, values, self.names.keys.get(table, ()))


def _decoded(entry: Any) -> Mapping[str, Any]:
    """Return an entry of a request; a library may have encoded it as JSON already."""
    return entry if isinstance(entry, Mapping) else json.loads(bytes(memoryview(entry)))


def item_name(table: str, values: Mapping[str, Any], key: tuple[str, ...]) -> str:
    """Return an item in the words of a report, as `orders order_id=o-1`."""
    return " ".join([table, *(f"{name}={values[name]}" for name in key if name in values)])
