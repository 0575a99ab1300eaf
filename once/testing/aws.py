"""FakeAws: queues and tables of one consumer in memory (moto), for one thread."""

import json
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Any, Self

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from boto3.dynamodb.types import TypeDeserializer
from moto import mock_aws

from once.commit.item_dedup import is_item_record
from once.consumer import Consumer, Runtime
from once.events.outgoing import events_in
from once.schema import COMMIT_ATTRIBUTE, Record, source_of
from once.settings import Settings, TableSettings
from once.testing._failed_messages import failed_messages, shown_error
from once.testing._function_role import function_role
from once.testing._registry import Registry, consumer_of
from once.testing.events import FakeContext, sqs_record
from once.transaction import serialize

_REGION = "us-east-1"
_DESERIALIZER = TypeDeserializer()


class FakeAws:
    """Queue, dead-letter queue and tables of one consumer, in memory.

    Conditions, transactions and receive counts are those of moto. It does not isolate transactions
    of several threads from each other: test concurrency on the embedded AWS.

    As on AWS, the consumer's functions may not call DynamoDB themselves, except to read items.

    Args:
        consumer: the consumer under test.
        tables: the key of each of its tables, by logical name: the attribute of the partition key,
            or those of partition and sort key. Keys are strings.
        publishers: the consumer that publishes each internal event type. By default all types are
            external: they may come from any source that does not begin with `/once/`.
        grants: further DynamoDB operations that the app grants to the function, such as `Query`.
        settings: other values for fields of `once.settings.Settings`.
    """

    def __init__(
        self,
        consumer: Consumer,
        tables: Mapping[str, str | tuple[str, ...]],
        *,
        publishers: Mapping[str, str] | None = None,
        grants: Collection[str] = (),
        **settings: Any,
    ) -> None:
        self._consumer = consumer
        self._tables = {name: TableSettings(name, _key(name, key)) for name, key in tables.items()}
        self._sources = {t: (source_of(name),) for t, name in (publishers or {}).items()}
        self._grants = grants
        self._more = settings
        self._remaining_ms = 30_000
        self.time: float | None = None
        self.slept: list[float] = []

    @classmethod
    def of(cls, registry: Registry, name: str, **settings: Any) -> Self:
        """Return the queue and tables of a consumer as its line declares them.

        Tables, event types, timeouts and limits are those of the line, so that they cannot differ
        from the deployed ones. The consumer is that of the line's `handler.py`. Events may come
        from any source, unless `publishers` names theirs.

        Args:
            registry: the `once.cdk.Registry` of the service.
            name: the consumer's name.
            settings: arguments of `FakeAws`, and other values for fields of the settings.

        Raises:
            LookupError: the registry has no such line, or the handler cannot be imported.
        """
        line = registry.line_of(name)
        declared = registry.settings_of(name)
        del declared["commit_threads"]  # moto does not isolate threads from each other
        if line.claim_check_mb:
            declared["claim_bucket"] = "claims"
        tables = {table.name: table.keys for table in line.tables}
        fake = cls(consumer_of(line), tables, **settings)
        fake._more = {**declared, **fake._more}
        fake._remaining_ms = line.timeout_seconds * 1000
        return fake

    def __enter__(self) -> Self:
        # If one of these steps fails, the patches of moto must not remain.
        with ExitStack() as undo:
            undo.enter_context(mock_aws())
            self._start()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _start(self) -> None:
        self.dynamodb = boto3.client("dynamodb", _REGION)
        self.sqs = boto3.client("sqs", _REGION)
        self.queue = self.sqs.create_queue(QueueName="queue")["QueueUrl"]
        self.dead_letter_queue = self.sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        for table in (TableSettings("dedup", (Record.PK,)), *self._tables.values()):
            self._create(table)
        if bucket := self._more.get("claim_bucket"):
            boto3.client("s3", _REGION).create_bucket(Bucket=bucket)
        self.runtime = self._runtime()

    def deliver(
        self,
        *messages: Any,
        receive_count: int = 1,
        remaining_ms: int | None = None,
        fails: bool | None = False,
    ) -> PartialItemFailureResponse:
        """Send messages to the queue, and invoke the consumer with them as one batch.

        A message fails if it is returned to the queue or dead-lettered. Duplicates, and business
        refusals that the consumer answers, do not fail.

        Args:
            messages: bodies as text, or values to send as JSON.
            receive_count: their `ApproximateReceiveCount`.
            remaining_ms: the remaining time of the invocation, in milliseconds; by default the
                timeout of the consumer's line, or 30 s.
            fails: True if the test expects that a message fails; None if any outcome will do.

        Raises:
            Exception: the error of the first message that fails, unless `fails` is set: the
                exception of the handler, or an error of `once.errors`. Its notes say what became
                of each message. All messages have been processed before.
            AssertionError: no message failed, and `fails` is True.
        """
        for message in messages:
            body = message if isinstance(message, str) else json.dumps(message)
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)
        records = [sqs_record(message, self._arn) for message in self._receive()]
        for record in records:
            record["attributes"]["ApproximateReceiveCount"] = str(receive_count)
        left = self._remaining_ms if remaining_ms is None else remaining_ms
        handle = self._consumer.bound_to(self.runtime)
        role = function_role(self.runtime.dynamodb, test=self.dynamodb, grants=self._grants)
        with role, failed_messages() as failed:
            answer = handle({"Records": records}, FakeContext(left))
        if failed and fails is False:
            raise shown_error(failed, [record["messageId"] for record in records])
        if fails and not failed:
            raise AssertionError("no message failed: take fails=True out, or correct the test")
        return answer

    def put(self, table: str, item: Mapping[str, Any]) -> None:
        """Write an item without the library, as test data."""
        self.dynamodb.put_item(TableName=table, Item=serialize(item))

    def items(self, table: str) -> list[dict[str, Any]]:
        """Return all items of a table, without the library's own attributes.

        Those are `once_commit`, and the dedup records of a consumer with `Dedup.ITEM`.
        The table of the dedup records is `dedup`.
        """
        return [
            {
                name: _DESERIALIZER.deserialize(value)
                for name, value in item.items()
                if name != COMMIT_ATTRIBUTE and not is_item_record(name)
            }
            for item in self.dynamodb.scan(TableName=table)["Items"]
        ]

    def published(self) -> list[dict[str, Any]]:
        """Return the events of committed records, in the form in which the relay publishes them."""
        records = self.dynamodb.scan(TableName="dedup")["Items"]
        return [
            json.loads(event.body)
            for record in records
            if Record.DEDUP_KEY not in record  # a sequence item repeats events of its record
            for event in events_in(record)
        ]

    def dead_letters(self) -> list[dict[str, Any]]:
        """Receive all dead letters, in the form of SQS's ReceiveMessage."""
        return self._receive(self.dead_letter_queue)

    @property
    def _arn(self) -> str:
        return f"arn:aws:sqs:{_REGION}:123456789012:queue"

    def _receive(self, queue: str | None = None) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        while more := self.sqs.receive_message(
            QueueUrl=queue or self.queue,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        ).get("Messages"):
            messages += more
        return messages

    def _create(self, table: TableSettings) -> None:
        key = list(zip(table.key, ("HASH", "RANGE"), strict=False))
        self.dynamodb.create_table(
            TableName=table.name,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in key],
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n, _ in key],
            BillingMode="PAY_PER_REQUEST",
        )

    def _runtime(self) -> Runtime:
        given = {
            "consumer": self._consumer.name,
            "event_types": tuple(self._consumer.handlers),
            "sources": self._sources,
            "dedup_window_seconds": 28 * 24 * 60 * 60,
            "commit_threads": 1,
            **self._more,
        }
        settings = Settings(
            queue_url=self.queue,
            dead_letter_url=self.dead_letter_queue,
            dedup_table="dedup",
            tables=self._tables,
            **given,
        )
        runtime = Runtime.of(settings, region=_REGION)
        return Runtime(
            settings=settings,
            dynamodb=runtime.dynamodb,
            sqs=runtime.sqs,
            logger=Logger(service=settings.consumer),
            clock=lambda: runtime.clock() if self.time is None else self.time,
            sleep=self.slept.append,
            s3=runtime.s3,
        )


def _key(table: str, key: str | tuple[str, ...]) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key)
    if not 1 <= len(set(names)) == len(names) <= 2:
        raise ValueError(
            f"the key {key!r} of table {table!r}; name the partition key, or give a pair of "
            "partition and sort key"
        )
    return names
