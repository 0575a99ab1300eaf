"""AWS clients in memory: DynamoDB with generated faults, and a dead-letter queue."""

import json
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError, ReadTimeoutError

from once.names import Limits, Record
from once.settings import Settings
from proof.fuzz.messages import NOW, sendable
from proof.world.calls import ServiceError
from proof.world.tables import Tables

LOGGER = Logger(service="fuzz", level="CRITICAL")
KEYS = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
}
"""The key attribute of each table of the shop that is written to."""


def settings(consumer: str, **more: Any) -> Settings:
    """Return settings of a consumer, without tables and event types unless `more` has them."""
    defaults: dict[str, Any] = {"tables": {}, "event_types": ()}
    return Settings(
        consumer=consumer,
        queue_url="queue",
        dead_letter_url="dead-letters",
        dedup_table="dedup",
        dedup_window_seconds=45 * 24 * 60 * 60,
        **defaults | more,
    )


def client_error(code: str, status: int = 400, **more: Any) -> ClientError:
    """Return the exception of a refused call."""
    error = {"Code": code, "Message": code}
    response: Any = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, "Fuzz")


class DeadLetterQueue:
    """SQS: accepts dead letters within its limits.

    Attributes:
        letters: the messages that were sent, by the last id of their lineage.
    """

    def __init__(self) -> None:
        self.letters: dict[str, dict[str, Any]] = {}

    def send_message(self, **message: Any) -> None:
        """Accept a dead letter, or refuse its characters, its number of attributes or its size."""
        body, attributes = message["MessageBody"], message["MessageAttributes"]
        texts = [body, *(value.get("StringValue", "x") for value in attributes.values())]
        if any(sendable(text) != text for text in texts):
            raise client_error("InvalidMessageContents")
        size = len(body.encode())
        for name, value in attributes.items():
            content = value.get("BinaryValue") or value["StringValue"].encode()
            size += len(name.encode()) + len(value["DataType"]) + len(content)
        if len(attributes) > 10 or size > Limits.MESSAGE_BYTES:
            raise client_error("InvalidParameterValue")
        lineage = attributes["once-lineage"]["StringValue"]
        self.letters[lineage.rpartition(",")[2]] = message

    def delete_message_batch(self, **_: Any) -> None:
        """Accept it: the answer to Lambda says the same."""

    def change_message_visibility(self, **_: Any) -> None:
        """Accept a delay; messages are not delivered again here."""


class DynamoDB:
    """DynamoDB: the tables of the shop, with generated faults.

    Args:
        answers: faults of the next transactions; None lets one through. With `done`, the
            transaction is committed before its answer fails; without a code, there is no answer.

    Attributes:
        records: the dedup records that were committed, by key.
        has_failed: whether a fault was met.
    """

    def __init__(self, answers: list[Any]) -> None:
        self.has_failed = False
        self._answers = iter(answers)
        self._tables = Tables({"dedup": Record.PK, **KEYS}, "dedup", lambda: NOW)
        self.records = self._tables.items["dedup"]
        self.meta = self.events = self  # the library registers a hook for encoding here

    def register(self, *_: Any, **__: Any) -> None:
        """Ignore a hook: requests are not encoded here."""

    def transact_write_items(self, *, TransactItems: list[Any]) -> None:  # noqa: N803
        """Commit the transaction, or fail as the next answer says."""
        answer = next(self._answers, None)
        if answer is None or answer["done"]:
            token = str(len(self._tables.tokens))
            entries = [json.loads(bytes(entry)) for entry in TransactItems]
            request = {"ClientRequestToken": token, "TransactItems": entries}
            self._call("TransactWriteItems", request)
        if answer is None:
            return
        self.has_failed = True
        if answer["code"] is None:
            raise ReadTimeoutError(endpoint_url="dynamodb")
        raise client_error(answer["code"], answer["status"], **answer["more"])

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        """Return the items that exist."""
        return self._call("BatchGetItem", request)

    def get_item(self, **request: Any) -> dict[str, Any]:
        """Return an item if it exists."""
        return self._call("GetItem", request)

    def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._tables.answer(operation, request)
        except ServiceError as error:
            raise client_error(error.code, error.status, **error.more) from None
