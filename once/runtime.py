"""Where the parts are put together, once for each function process."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from boto3.dynamodb.types import TypeDeserializer

from once.commit.committer import Committer
from once.commit.request_encoding import write_bodies
from once.effects.ledger import Ledger
from once.failures.circuit_breaker import Breaker
from once.failures.quarantine import Quarantine
from once.failures.visibility_backoff import Backoff
from once.handlers.actions import Item, serialize
from once.schema import Metric
from once.sdk import SDK, sqs_client
from once.settings import Settings, TableSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

_DESERIALIZER = TypeDeserializer()


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a consumer works with, all of it replaceable in a test."""

    settings: Settings
    dynamodb: "DynamoDBClient"
    sqs: "SQSClient"
    logger: Logger
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    metrics: Metrics = field(default_factory=lambda: Metrics(namespace=Metric.NAMESPACE))

    def __post_init__(self) -> None:
        write_bodies(self.dynamodb)

    @classmethod
    def of(cls, settings: Settings, *, region: str | None = None) -> "Runtime":
        """Return the runtime of a deployed function, which finds its region in its environment."""
        return cls(
            settings=settings,
            dynamodb=boto3.client("dynamodb", region, config=SDK),
            sqs=sqs_client(region),
            logger=Logger(service=settings.consumer),
        )

    @property
    def committer(self) -> Committer:
        """The way into DynamoDB."""
        return Committer(self.dynamodb, self.settings, self.clock)

    @property
    def ledger(self) -> Ledger:
        """Where effects are written down."""
        settings = self.settings
        return Ledger(
            self.dynamodb,
            settings.dedup_table,
            self.clock,
            self.logger,
            settings.lease_margin_seconds,
        )

    @property
    def quarantine(self) -> Quarantine:
        """The way into the dead-letter queue."""
        return Quarantine(self.sqs, self.settings)

    def backoff(self, breaker: Breaker) -> Backoff:
        """Return the way back into the queue."""
        return Backoff(self.sqs, self.settings, self.logger, breaker, self.clock)

    def read(self, table: TableSettings, key: Item) -> dict[str, Any] | None:
        """Read an item consistently; None where there is none."""
        answer = self.dynamodb.get_item(
            TableName=table.name, Key=serialize(key), ConsistentRead=True
        )
        if "Item" not in answer:
            return None
        return {name: _DESERIALIZER.deserialize(v) for name, v in answer["Item"].items()}
