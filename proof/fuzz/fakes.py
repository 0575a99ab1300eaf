"""What stands around a function under fuzz: clients in memory that answer as they are told."""

import json
from typing import Any, cast

from aws_lambda_powertools import Logger, Metrics
from botocore.exceptions import ClientError, ReadTimeoutError

from once.deadline import Deadline
from once.schema import Limits, Record
from once.testing import FakeContext
from proof.fuzz import messages
from proof.fuzz.messages import sendable
from proof.world.errors import ServiceError
from proof.world.metrics import NoMetrics
from proof.world.tables import Tables

CONTEXT = FakeContext(30_000)
DEADLINE = Deadline(CONTEXT.get_remaining_time_in_millis, 5000)
LOGGER = Logger(service="fuzz", level="CRITICAL")
_MOST_ATTRIBUTES = 10


METRICS = cast(Metrics, NoMetrics())
NOW = int(messages.SENT) / 1000
KEYS = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
}
"""The key attribute of each table of the shop that is written to."""


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
    """DynamoDB as the world has it, with answers that a case says.

    Args:
        answers: what the next transactions meet; None lets one through.

    Attributes:
        records: the dedup records that were committed, by key.
        has_failed: whether a transaction met anything but its own conditions.
    """

    def __init__(self, answers: list[Any]) -> None:
        self.has_failed = False
        self._answers = list(answers)
        self._tables = Tables({"dedup": Record.PK, **KEYS}, "dedup", lambda: NOW)
        self.records = self._tables.items["dedup"]
        self.meta = self
        self.events = self

    def register(self, *_: Any, **__: Any) -> None:
        """Take no hooks: nothing is encoded here."""

    def transact_write_items(self, *, TransactItems: list[Any]) -> None:  # noqa: N803
        """Commit, or do as the next answer says."""
        answer = self._answers.pop(0) if self._answers else None
        if answer is None or answer["done"]:
            entries = [json.loads(bytes(entry)) for entry in TransactItems]
            token = {"ClientRequestToken": str(len(self._tables.tokens))}
            self._do("TransactWriteItems", {**token, "TransactItems": entries})
        if answer is None:
            return
        self.has_failed = True
        if answer["code"] is None:
            raise ReadTimeoutError(endpoint_url="dynamodb")
        raise refusal(answer["code"], answer["status"], **answer["more"])

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        """Return the items that are there."""
        return self._do("BatchGetItem", request)

    def get_item(self, **request: Any) -> dict[str, Any]:
        """Return an item, if it is there."""
        return self._do("GetItem", request)

    def _do(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._tables.answer(operation, request)
        except ServiceError as error:
            raise refusal(error.code, error.status, **error.more) from None
