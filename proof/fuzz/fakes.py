"""What stands around a function under fuzz: clients in memory that answer as they are told."""

import json
from typing import Any, cast

from aws_lambda_powertools import Logger, Metrics
from botocore.exceptions import ClientError, ReadTimeoutError

from once.deadline import Deadline
from once.schema import Limits, Record
from once.testing import FakeContext
from proof.fuzz.messages import sendable

CONTEXT = FakeContext(30_000)
DEADLINE = Deadline(CONTEXT.get_remaining_time_in_millis, 5000)
LOGGER = Logger(service="fuzz", level="CRITICAL")
_MOST_ATTRIBUTES = 10


class _Silence:
    """Metrics that nobody reads."""

    metric_set: dict[str, Any] = {}  # noqa: RUF012

    def add_metric(self, **_: Any) -> None:
        """Count nothing."""

    def add_dimension(self, *_: Any) -> None:
        """Tell nothing apart."""

    def flush_metrics(self) -> None:
        """Print nothing."""


METRICS = cast(Metrics, _Silence())


def refusal(code: str, status: int = 400, **more: Any) -> ClientError:
    """Return the error of a call that a service refuses."""
    error = {"Code": code, "Message": code}
    response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, "Fuzz")


class Queues:
    """SQS: takes dead letters, and refuses what SQS does not take.

    Attributes:
        letters: the messages that were sent, by the last id of their lineage.
    """

    def __init__(self) -> None:
        self.letters: dict[str, dict[str, Any]] = {}

    def send_message(self, **message: Any) -> None:
        """Take a dead letter."""
        attributes = message["MessageAttributes"]
        texts = [value["StringValue"] for value in attributes.values() if "StringValue" in value]
        if not all(sendable(text) == text for text in (message["MessageBody"], *texts)):
            raise refusal("InvalidMessageContents")
        if len(attributes) > _MOST_ATTRIBUTES or _size(message) > Limits.MESSAGE_BYTES:
            raise refusal("InvalidParameterValue")
        lineage = attributes["once-lineage"]["StringValue"]
        self.letters[lineage.rpartition(",")[2]] = message

    def change_message_visibility(self, **_: Any) -> None:
        """Set no delay: nothing comes again here."""


def _size(message: dict[str, Any]) -> int:
    size = len(message["MessageBody"].encode())
    for name, value in message["MessageAttributes"].items():
        content = value.get("BinaryValue") or value["StringValue"].encode()
        size += len(name.encode()) + len(value["DataType"]) + len(content)
    return size


class Table:
    """DynamoDB, as far as dedup records go: the first put of a key wins, and all else succeeds.

    Args:
        answers: what the next transactions meet; None lets one through.

    Attributes:
        records: the dedup records that were committed, by key.
        has_failed: whether a transaction met anything but its own conditions.
    """

    def __init__(self, answers: list[Any]) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.has_failed = False
        self._answers = list(answers)
        self.meta = self
        self.events = self

    def register(self, *_: Any, **__: Any) -> None:
        """Take no hooks: nothing is encoded here."""

    def transact_write_items(self, *, TransactItems: list[Any]) -> None:  # noqa: N803
        """Commit, or do as the next answer says."""
        answer = self._answers.pop(0) if self._answers else None
        entries = [json.loads(bytes(entry)) for entry in TransactItems]
        if answer is None or answer["done"]:
            self._commit(entries)
        if answer is None:
            return
        self.has_failed = True
        if answer["code"] is None:
            raise ReadTimeoutError(endpoint_url="dynamodb")
        raise refusal(answer["code"], answer["status"], **answer["more"])

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        """Return the records that are there."""
        keys = [key[Record.PK]["S"] for key in RequestItems["dedup"]["Keys"]]
        return {"Responses": {"dedup": [self.records[key] for key in keys if key in self.records]}}

    def get_item(self, **_: Any) -> dict[str, Any]:
        """Find nothing: the tables of the business are empty."""
        return {}

    def _commit(self, entries: list[Any]) -> None:
        puts = [entry.get("Put", {}).get("Item", {}) for entry in entries]
        reasons = [self._reason(item) for item in puts]
        if any(reason["Code"] != "None" for reason in reasons):
            raise refusal("TransactionCanceledException", CancellationReasons=reasons)
        self.records |= {item[Record.PK]["S"]: item for item in puts if Record.PK in item}

    def _reason(self, item: dict[str, Any]) -> dict[str, Any]:
        earlier = self.records.get(item.get(Record.PK, {}).get("S", ""))
        if earlier is None:
            return {"Code": "None"}
        return {"Code": "ConditionalCheckFailed", "Item": earlier}
