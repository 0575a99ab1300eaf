"""FakeAws: queues and tables of one consumer, or of commands, in memory (moto), for one thread.

A test says what is in the tables, delivers messages or runs commands, lets time pass until due
events come, and says what is in the tables then. Each message is delivered twice, and each command
is run twice, so that each test is a test of duplicates.
"""

import json
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from importlib import import_module
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self, TypeVar
from unittest import SkipTest
from unittest.mock import patch
from uuid import uuid4

import boto3
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from boto3.dynamodb.types import TypeDeserializer
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from moto import mock_aws
from msgspec.structs import replace

from once.business_tables import ItemT, Table
from once.commands.answer import Reply
from once.commands.handlers import Commands
from once.commands.runner import CommandRuntime
from once.commit.item_dedup import is_item_record
from once.consumer import Consumer, LambdaHandler, Runtime
from once.dynamodb_rules import serialize
from once.errors import OnceError, Unexpected
from once.events.outgoing import OutgoingEvent, events_in
from once.failures.failure_handler import FailureHandler
from once.intake.reader import Delivery, Disposition
from once.names import COMMIT_ATTRIBUTE, DUE_EXTENSION, SOURCE_PREFIX, Record
from once.runtime.deadline import Context, Deadline
from once.settings import CommandSettings, Settings, TableSettings
from once.testing._moto import corrected
from once.testing.events import FakeContext, sqs_record
from once.testing.faults import Fault, answer_lost, inject

RuntimeT = TypeVar("RuntimeT", Runtime, CommandRuntime)

_REGION = "us-east-1"
_DESERIALIZER = TypeDeserializer()
_READS = {"GetItem", "BatchGetItem", "TransactGetItems"}
_REMEDY = (
    "FakeAws.deliver raises the error of the first message that fails. If the test expects it, "
    "write pytest.raises, or deliver(…, fails=True) to look at the answer and at dead_letters()"
)


class ConsumerRegistry(Protocol):
    """A registry of lines: `once.cdk.Registry`, which is not imported here."""

    def line_of(self, name: str) -> Any:
        """Return the line of a consumer or of commands, with its folder."""

    def settings_of(self, name: str) -> dict[str, Any]:
        """Return the settings that follow from the lines."""


class FakeAws:
    """Queue, dead-letter queue and tables of one consumer, or the tables of commands, in memory.

    Conditions, transactions and receive counts are those of moto. It does not isolate transactions
    of several threads from each other: test concurrency on the embedded AWS.

    As on AWS, the consumer's functions may not call DynamoDB themselves, except to read items.

    Args:
        consumer: the consumer or the commands under test.
        tables: the key of each of its tables, by logical name: the attribute of the partition key,
            or those of partition and sort key. Keys are strings.
        publishers: the consumer that publishes each internal event type. By default all types are
            external: they may come from any source that does not begin with `/once/`.
        grants: further DynamoDB operations that the app grants to the function, such as `Query`.
        deliveries: how often `deliver` delivers each message that does not fail, and how often
            `run` runs each command.
        settings: other values for fields of `once.settings.Settings`, or `CommandSettings`.
    """

    def __init__(
        self,
        consumer: Consumer | Commands,
        tables: Mapping[str, str | tuple[str, ...]],
        *,
        publishers: Mapping[str, str] | None = None,
        grants: Collection[str] = (),
        deliveries: int = 2,
        **settings: Any,
    ) -> None:
        self._consumer, self._grants, self._deliveries = consumer, grants, deliveries
        self._tables = {name: TableSettings(name, _key(name, key)) for name, key in tables.items()}
        self._sources = {t: (SOURCE_PREFIX + name,) for t, name in (publishers or {}).items()}
        self._more = settings
        self._faults: list[tuple[Any, str, Sequence[Fault | None]]] = []
        self._remaining_ms = 30_000
        self._fallen_due: set[str] = set()
        self.time: float | None = None
        self.slept: list[float] = []

    @classmethod
    def of(cls, registry: ConsumerRegistry, name: str, **settings: Any) -> Self:
        """Return the AWS of a consumer or of commands as their line declares it.

        Tables, event types, timeouts and limits are those of the line, so that they cannot differ
        from the deployed ones. The handlers are those of the line's `handler.py`. Events may come
        from any source, unless `publishers` names theirs.

        Args:
            registry: the `once.cdk.Registry` of the service.
            name: the name of the line.
            settings: arguments of `FakeAws`, and other values for fields of the settings.

        Raises:
            LookupError: the registry has no such line, or the handler cannot be imported.
        """
        line = registry.line_of(name)
        declared = registry.settings_of(name)
        declared.pop("commit_threads", None)  # moto does not isolate threads from each other
        if getattr(line, "claim_check_mb", 0):
            declared["claim_bucket"] = "claims"
        tables = {table.name: table.keys for table in line.tables}
        fake = cls(_consumer_in(line.folder or Path()), tables, **settings)
        fake._more = {**declared, **fake._more}
        fake._remaining_ms = line.timeout_seconds * 1000
        return fake

    def __enter__(self) -> Self:
        # If one of these steps fails, the patches of moto must not remain.
        with ExitStack() as undo:
            # In a shell with the variables of `once local env`, clients would leave this process.
            own = {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
            undo.enter_context(patch.dict(os.environ, own))
            undo.enter_context(mock_aws())
            undo.enter_context(corrected())
            self._start()
            if isinstance(self._consumer, Commands):
                self._start_commands(self._consumer, undo)
            else:
                self._start_consumer(self._consumer)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _start(self) -> None:
        self.dynamodb = boto3.client("dynamodb", _REGION)
        self.sqs = boto3.client("sqs", _REGION)
        self.queue = self.sqs.create_queue(QueueName="queue")["QueueUrl"]
        self.dead_letter_queue = self.sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        # Without a stream: in place of a relay, `published` reads the outboxes.
        for table in (TableSettings("dedup", (Record.PK,)), *self._tables.values()):
            key = list(zip(table.key, ("HASH", "RANGE"), strict=False))
            self.dynamodb.create_table(
                TableName=table.name,
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in key],
                AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n, _ in key],
                BillingMode="PAY_PER_REQUEST",
            )
        if bucket := self._more.get("claim_bucket"):
            boto3.client("s3", _REGION).create_bucket(Bucket=bucket)

    @property
    def _given(self) -> dict[str, Any]:
        return {
            "consumer": self._consumer.name,
            "dedup_table": "dedup",
            "tables": self._tables,
            "dedup_window_seconds": 28 * 24 * 60 * 60,
        }

    def _start_consumer(self, consumer: Consumer) -> None:
        given = {
            **self._given,
            "event_types": tuple(consumer.handlers),
            "sources": self._sources,
            "commit_threads": 1,
            **self._more,
        }
        urls = {"queue_url": self.queue, "dead_letter_url": self.dead_letter_queue}
        self.runtime = self._isolated(Runtime.of(Settings(**urls, **given), region=_REGION))
        self._library = self.runtime.dynamodb

    def _start_commands(self, commands: Commands, undo: ExitStack) -> None:
        given = {**self._given, "commands": tuple(commands.handlers), **self._more}
        runtime = self._isolated(CommandRuntime.of(CommandSettings(**given), region=_REGION))
        self._library = runtime.dynamodb
        undo.enter_context(patch.dict(vars(commands), runner=commands.bound_to(runtime)))

    def _isolated(self, runtime: RuntimeT) -> RuntimeT:
        """Return a runtime with the clock of the test. It does not wait: the clock of commands,
        whose deadlines it decides on, goes on instead.
        """
        now, waits = runtime.clock, isinstance(runtime, CommandRuntime)

        def clock() -> float:
            return (now() if self.time is None else self.time) + waits * sum(self.slept)

        return replace(runtime, clock=clock, sleep=self.slept.append)

    def given(self, table: str | Table[ItemT], *items: ItemT | Mapping[str, Any]) -> None:
        """Write items without the library, as test data: dicts, or objects of the table's model."""
        made = table if isinstance(table, Table) else Table[Any](table)
        for item in items:
            self.dynamodb.put_item(TableName=made.name, Item=serialize(made.item_of(item)))

    def deliver(
        self,
        *messages: Any,
        receive_count: int = 1,
        remaining_ms: int | None = None,
        fails: bool | None = False,
        through: LambdaHandler | None = None,
    ) -> PartialItemFailureResponse:
        """Send messages to the queue, and invoke the consumer with them as one batch.

        Then the messages that did not fail are delivered again, as SQS may do, to another instance
        of the function. That must change nothing.

        A message fails if it is returned to the queue or dead-lettered. Duplicates, and business
        refusals that the consumer answers, do not fail.

        Args:
            messages: bodies as text, or values to send as JSON.
            receive_count: their `ApproximateReceiveCount`.
            remaining_ms: the remaining time of the invocation, in milliseconds; by default the
                timeout of the consumer's line, or 30 s.
            fails: True if the test expects that a message fails; None if any outcome will do.
            through: the function's entry, if it is not the consumer's own `lambda_handler`, such as
                one with Powertools' decorators.

        Returns:
            The answer to the first delivery.

        Raises:
            Exception: the error of the first message that fails, unless `fails` is set: the
                exception of the handler, or an error of `once.errors`. Its notes say what became
                of each message. All messages have been processed before.
            BaseException: the user's code raised `KeyboardInterrupt` or, as `pytest.fail` and
                `pytest.skip` do, an exception that ends a test. The delivery ends at once.
            AssertionError: no message failed, and `fails` is True; a call of `fails_at` was not
                made; a further delivery changed something; or `through` has another answer
                than the consumer.
        """
        for message in messages:
            body = message if isinstance(message, str) else json.dumps(message)
            self.sqs.send_message(QueueUrl=self.queue, MessageBody=body)
        arn = f"arn:aws:sqs:{_REGION}:123456789012:queue"
        records = [sqs_record(message, arn) for message in self._receive()]
        for record in records:
            record["attributes"]["ApproximateReceiveCount"] = str(receive_count)
        left = self._remaining_ms if remaining_ms is None else remaining_ms
        # Faults are for the first delivery alone: a further one must find everything committed.
        with self._planned_faults():
            answer, failed = self._invoke(records, left, through)
        ids = [record["messageId"] for record in records]
        if failed and fails is False:
            raise _shown_error(failed, ids)
        if fails and not failed:
            raise AssertionError("no message failed: take fails=True out, or correct the test")
        if done := [each for each in records if each["messageId"] not in failed]:
            self._deliver_again(done, left, through)
        return answer

    def _deliver_again(
        self,
        records: Sequence[dict[str, Any]],
        remaining_ms: int,
        through: LambdaHandler | None,
    ) -> None:
        before = self._contents()
        for _ in range(self._deliveries - 1):
            _, failed = self._invoke(records, remaining_ms, through)
            if failed:
                raise _shown_error(failed, [record["messageId"] for record in records])
            self._check_unchanged(before, "delivery")

    def _check_unchanged(self, before: dict[str, list[dict[str, Any]]], what: str) -> None:
        for table, items in self._contents().items():
            if items != before[table]:
                raise AssertionError(
                    f"a second {what} changed the table {table!r}: {before[table]} became "
                    f"{items}. Write through the transaction alone, and look at the key"
                )

    def run(self, name: str, data: Any, *, key: str = "", scope: str = "test") -> Reply:
        """Run a command, and run it again as a client that has lost the answer.

        Args:
            name: the command.
            data: its data, as JSON or as an object of a model.
            key: the caller's key; by default a new one.
            scope: whose key it is.

        Returns:
            The first reply.

        Raises:
            AssertionError: the second answer differs, or the second request changed something; or a
                call of `fails_at` was not made.
            Exception: see `Commands.run`.
        """
        if not isinstance(self._consumer, Commands):
            raise TypeError("a consumer has no commands: send it messages with deliver(…)")
        send = partial(self._consumer.run, name, data, key=key or uuid4().hex, scope=scope)
        with self._as_function():
            with self._planned_faults():
                first = send()
            before = self._contents()
            for _ in range(self._deliveries - 1):
                if (again := send()) != replace(first, repeated=True):
                    raise AssertionError(f"a second request had another answer: {again}")
                self._check_unchanged(before, "request")
        return first

    def _contents(self) -> dict[str, list[dict[str, Any]]]:
        return {table: self.items(table) for table in ("dedup", *self._tables)}

    def _invoke(
        self,
        records: Sequence[dict[str, Any]],
        remaining_ms: int,
        through: LambdaHandler | None,
    ) -> "tuple[PartialItemFailureResponse, _Failed]":
        if isinstance(self._consumer, Commands):
            raise TypeError("commands have no queue: run them with run(…)")
        # Anew for each invocation, as at a cold start: what the breaker and the group size have
        # learned in a warm function must not decide a test.
        handle = self._consumer.bound_to(self.runtime)
        answers = []

        def own(event: dict[str, Any], context: Context) -> PartialItemFailureResponse:
            answers.append(handle(event, context))
            return answers[-1]

        entry = patch.dict(vars(self._consumer), lambda_handler=own)
        with entry, self._as_function(), _failed_messages() as failed:
            answer = (through or own)({"Records": [*records]}, FakeContext(remaining_ms))
        if [answer] != answers:
            raise AssertionError(
                f"the entry answered {answer!r}, and the consumer {answers}: return what "
                "consumer.lambda_handler returns, or SQS deletes messages that failed"
            )
        return answer, failed

    @contextmanager
    def _as_function(self) -> Iterator[None]:
        role = _function_role(self._library, test=self.dynamodb, grants=self._grants)
        with role, _ends_of_tests():
            yield

    def fails_at(self, call: str, *faults: Fault | None) -> None:
        """Let calls of AWS fail in the next delivery.

        Args:
            call: the operation of DynamoDB or SQS, such as `TransactWriteItems`.
            faults: one for each of the next calls, in order; None lets a call succeed. By default
                the first one is executed, and its answer is lost.

        Raises:
            ValueError: the consumer's clients have no such operation.
        """
        sqs = [] if isinstance(self._consumer, Commands) else [self.runtime.sqs]
        for client in (self._library, *sqs):
            if call in client.meta.service_model.operation_names:
                self._faults.append((client, call, faults or (answer_lost(),)))
                return
        raise ValueError(
            f"neither DynamoDB nor SQS has the operation {call!r}; spell it as AWS does, such as "
            "TransactWriteItems"
        )

    @contextmanager
    def _planned_faults(self) -> Iterator[None]:
        # Taken out first: after an error, the next delivery must not have them.
        planned, self._faults = self._faults, []
        with ExitStack() as stack:
            waiting = [(call, stack.enter_context(inject(c, call, *f))) for c, call, f in planned]
            yield
        for call, faults in waiting:
            if faults:
                raise AssertionError(f"the delivery made too few calls of {call} for fails_at")

    def advance(self, delta: timedelta) -> list[dict[str, Any]]:
        """Let time pass, and deliver the due events that the consumer handles at their due times.

        The clock of the test, `time`, is that of each event while it is delivered. Due events that
        a delivery sets within the time are delivered too.

        Returns:
            The events that fell due, also those for other consumers, in the order of their times.

        Raises:
            Exception: see `deliver`.
        """
        now, fell_due = time.time() if self.time is None else self.time, []
        end = ceil(now + delta.total_seconds())  # due times are whole seconds, rounded up
        while waiting := self._waiting(end):
            due, event = waiting[0]
            self._fallen_due.add(event["id"])
            self.time = max(due, now if self.time is None else self.time)
            fell_due.append(event)
            if event["type"] in self._consumer.handlers and isinstance(self._consumer, Consumer):
                with self._trusting(event):
                    self.deliver(event)
        self.time = end
        return fell_due

    def _waiting(self, until: float) -> list[tuple[int, dict[str, Any]]]:
        """Return the due events that wait at most until a time, in the order of their times."""
        found = [
            (each.due, json.loads(each.body))
            for each in self._committed_events()
            if each.due is not None and each.due <= until and each.id not in self._fallen_due
        ]
        # One whose time had passed at its commit is published at once, and not here.
        waited = [(due, e) for due, e in found if e["time"] > e[DUE_EXTENSION]]
        return sorted(waited, key=lambda each: each[0])

    @contextmanager
    def _trusting(self, event: Mapping[str, Any]) -> Iterator[None]:
        """Let the consumer take the type of an event from its source, and from no other."""
        runtime = self.runtime
        sources = {**runtime.settings.sources, event["type"]: (event["source"],)}
        self.runtime = replace(runtime, settings=replace(runtime.settings, sources=sources))
        try:
            yield
        finally:
            self.runtime = runtime

    def then(self, table: str | Table[Any], key: Any) -> dict[str, Any] | None:
        """Return an item without the library's own attributes; None if there is none.

        Args:
            table: the table.
            key: the item's primary key: a mapping; the value of the partition key; or the values of
                partition and sort key, as a tuple.
        """
        name = _name_of(table)
        values = key if isinstance(key, tuple) else (key,)
        names = ("pk",) if name == "dedup" else self._tables[name].key
        primary = key if isinstance(key, Mapping) else dict(zip(names, values, strict=True))
        item = self.dynamodb.get_item(TableName=name, Key=serialize(primary)).get("Item")
        return None if item is None else _shown(item)

    def items(self, table: str | Table[Any]) -> list[dict[str, Any]]:
        """Return all items of a table, without the library's own attributes.

        Those are `once_commit`, and the dedup records of a consumer with `Dedup.ITEM`.
        The table of the dedup records is `dedup`.
        """
        return [_shown(item) for item in self.dynamodb.scan(TableName=_name_of(table))["Items"]]

    def published(self) -> list[dict[str, Any]]:
        """Return the events of committed records, in the form in which the relay publishes them.

        Due events are among them, whether they are due or not.
        """
        return [json.loads(event.body) for event in self._committed_events()]

    def _committed_events(self) -> list[OutgoingEvent]:
        records = self.dynamodb.scan(TableName="dedup")["Items"]
        return [
            event
            for record in records
            if Record.DEDUP_KEY not in record  # a sequence item repeats events of its record
            for event in events_in(record)
        ]

    def dead_letters(self) -> list[dict[str, Any]]:
        """Receive all dead letters, in the form of SQS's ReceiveMessage."""
        return self._receive(self.dead_letter_queue)

    def _receive(self, queue: str | None = None) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        # It ends, since SQS hides the messages of each receive for a while.
        while more := self.sqs.receive_message(
            QueueUrl=queue or self.queue,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        ).get("Messages"):
            messages += more
        return messages


def _shown(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _DESERIALIZER.deserialize(value)
        for name, value in item.items()
        if name != COMMIT_ATTRIBUTE and not is_item_record(name)
    }


def _name_of(table: str | Table[Any]) -> str:
    return table if isinstance(table, str) else table.name


def _key(table: str, key: str | tuple[str, ...]) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key)
    if not 1 <= len(set(names)) == len(names) <= 2:
        raise ValueError(
            f"the key {key!r} of table {table!r}; name the partition key, or give a pair of "
            "partition and sort key"
        )
    return names


def _consumer_in(folder: Path) -> Consumer | Commands:
    """Return the consumer, or the commands, that the `handler.py` of a folder defines."""
    file = folder.resolve() / "handler.py"
    module = _module_of(file)
    kinds = Consumer | Commands
    found = {id(each): each for each in vars(module).values() if isinstance(each, kinds)}
    if len(found) != 1:
        raise LookupError(
            f"{file} has {len(found)} objects of once.Consumer or once.Commands at its top; keep "
            "one"
        )
    return next(iter(found.values()))


def _module_of(file: Path) -> ModuleType:
    for module in list(sys.modules.values()):
        own = getattr(module, "__file__", None) or ""
        if own.endswith("handler.py") and Path(own).resolve() == file:
            return module
    for place in sys.path:
        base = Path(place).resolve()
        parts = file.with_suffix("").parts[len(base.parts) :]
        if file.is_relative_to(base) and all(part.isidentifier() for part in parts):
            return import_module(".".join(parts))
    raise LookupError(
        f"no folder of sys.path holds {file}; add the one that holds `functions`, as with "
        'pythonpath = ["."] in the settings of pytest'
    )


@contextmanager
def _function_role(library: object, *, test: object, grants: Collection[str]) -> Iterator[None]:
    """Deny what the role of a consumer denies: every call of DynamoDB, except reads of items.

    Also denies transactions of other clients than the library's. The role of a function cannot: to
    IAM they look like those of the library. The clients `library` and `test` may do everything.
    """
    # Every client passes here: one of `boto3.resource`, or one made when the module was imported.
    call = BaseClient._make_api_call  # type: ignore[attr-defined]  # noqa: SLF001
    allowed = {*_READS, *grants}

    def guarded(client: BaseClient, operation: str, parameters: Any) -> Any:
        foreign = client is not library and client is not test
        service = client.meta.service_model.service_name
        if foreign and service == "dynamodb" and operation not in allowed:
            message = (
                f"the function of a consumer may not call dynamodb:{operation} itself; read with "
                "tx.get, and write with tx.put, tx.update or tx.delete. If the app grants the "
                f"operation to the function, give FakeAws grants=({operation!r},)"
            )
            error = {"Error": {"Code": "AccessDeniedException", "Message": message}}
            raise ClientError(error, operation)  # type: ignore[arg-type]
        return call(client, operation, parameters)

    with patch.object(BaseClient, "_make_api_call", guarded):
        yield


@contextmanager
def _ends_of_tests() -> Iterator[None]:
    """Let exceptions that end a test pass through the consumer, which takes any for a failure."""
    ends: tuple[type[BaseException], ...] = (KeyboardInterrupt, SkipTest)
    if pytest := sys.modules.get("pytest"):
        ends += tuple(end.Exception for end in (pytest.fail, pytest.skip, pytest.exit))
    initialize = Unexpected.__init__

    # The consumer makes an Unexpected of each exception that it does not know.
    def passing(self: Unexpected, error: BaseException) -> None:
        found = error.subgroup(ends) if isinstance(error, BaseExceptionGroup) else None
        if found or isinstance(error, ends):
            raise error
        initialize(self, error)

    with patch.object(Unexpected, "__init__", passing):
        yield


_Failed = dict[str, tuple[OnceError, Disposition]]
"""The messages that were neither committed nor a duplicate, by their id."""


@contextmanager
def _failed_messages() -> Iterator[_Failed]:
    """Yield a dictionary that receives each message that fails.

    A message that commits after an error is not in it: a handler runs again if another message
    changes the items that it reads.
    """
    found: _Failed = {}
    finish = FailureHandler.finish

    def noting(
        self: FailureHandler, delivery: Delivery, error: OnceError, deadline: Deadline
    ) -> Disposition:
        disposition = finish(self, delivery, error, deadline)
        found[delivery.record["messageId"]] = (error, disposition)
        return disposition

    with patch.object(FailureHandler, "finish", noting):
        yield found


def _shown_error(failed: _Failed, ids: Sequence[str]) -> BaseException:
    """Return the error of the first failed message of a batch, with a note about each."""
    in_order = [(number, *failed[each]) for number, each in enumerate(ids, 1) if each in failed]
    first = in_order[0][1]
    # The traceback of an unknown exception ends where the handler raised it.
    shown = first.__cause__ if isinstance(first, Unexpected) and first.__cause__ else first
    for number, error, disposition in in_order:
        ending = f"dead-lettered as {error.reason}"
        if disposition is not Disposition.QUARANTINED:
            ending = "returned to the queue"
        told = f"{ending}: {type(error).__name__}: {error}"
        shown.add_note(f"message {number} of {len(ids)}: {told}")
    shown.add_note(_REMEDY)
    return shown
