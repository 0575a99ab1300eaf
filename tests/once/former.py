"""A consumer that replaces a function with Powertools' idempotency, and that function itself."""

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
)

from once.consumer import Consumer
from once.testing import FakeAws, FakeContext
from once.transaction import FormerRecords
from tests.once.support import Function, Note, SoldOut, count

TABLES = {"counters": "name", "idempotency": "id"}
PREFIX = "notes-fn.tests.once.former.FormerFunction.deliver.<locals>.process"


class Killed(BaseException):
    """The end of the former function's process."""


def consumer_after_powertools(
    function: Function = count, *, former: bool = True, value: Callable[[Any], Any] | None = None
) -> Consumer:
    consumer = Consumer("notes")
    consumer.table("counters")
    records = FormerRecords.powertools(
        consumer.table("idempotency"), prefix=PREFIX, value=value or (lambda event: event.id)
    )
    consumer.handles("noted", Note, former=records if former else None)(function)
    consumer.rejects(SoldOut)(lambda event, refusal, tx: None)
    return consumer


class FormerFunction:
    """The function that Once replaces. It counts by a plain write, between two of Powertools'.

    Attributes:
        changes: the changes that it made.
        between: called at each of its four points: before its record, before and after its change,
            and after its record is completed.
    """

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self._store = DynamoDBPersistenceLayer("idempotency", boto3_client=aws.dynamodb)
        self.changes = 0
        self.between: Callable[[int], None] = lambda point: None

    def deliver(self, event: dict[str, Any], *, lease_ms: int = 60_000) -> bool:
        """Deliver a message; return whether it was acknowledged."""
        config = IdempotencyConfig(event_key_jmespath="id")
        config.register_lambda_context(FakeContext(lease_ms))  # type: ignore[arg-type]

        def process(event: dict[str, Any]) -> None:
            self.between(1)
            self._aws.dynamodb.update_item(
                TableName="counters",
                Key={"name": {"S": event["data"]["name"]}},
                UpdateExpression="ADD amount :one",
                ExpressionAttributeValues={":one": {"N": "1"}},
            )
            self.changes += 1
            self.between(2)

        idempotent: Callable[..., None] = idempotent_function(
            process, data_keyword_argument="event", config=config, persistence_store=self._store
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_LAMBDA_FUNCTION_NAME", "notes-fn")
            try:
                self.between(0)
                idempotent(event=event)
                self.between(3)
            except (IdempotencyAlreadyInProgressError, Killed):
                return False
        return True


def end_leases(aws: FakeAws) -> None:
    """Set the end of each lease in the former store to a time that has passed."""
    for item in aws.dynamodb.scan(TableName="idempotency")["Items"]:
        if item["status"] == {"S": "INPROGRESS"}:
            item["in_progress_expiration"] = {"N": "1000"}
            aws.dynamodb.put_item(TableName="idempotency", Item=item)
