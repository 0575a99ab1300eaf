"""A small consumer, and helpers that the unit tests share."""

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import StringIO
from typing import Any, NoReturn
from uuid import uuid4

import hypothesis
from aws_lambda_powertools import Logger
from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from once.business_tables import Table, read_item
from once.commit.committer import CommitRequest, Committer
from once.commit.result import CommitResult, failed
from once.consumer import Consumer, Runtime, committer_of
from once.effects.ledger import EffectLedger
from once.errors import PermanentError, Refusal
from once.events.cloud_event import CloudEvent
from once.runtime.metrics_log import MetricsLog
from once.settings import Settings, TableSettings
from once.testing import FakeAws, FakeContext, cloud_event
from once.transaction import Identity, Transaction

COUNTERS = Table[Any]("counters")
PUBLISHES = ("counted",)
TABLES = {"counters": TableSettings("counters", ("name",))}
SETTINGS = Settings(
    consumer="notes",
    event_types=("noted",),
    queue_url="https://queue",
    dead_letter_url="https://dead",
    dedup_table="dedup",
    tables=TABLES,
    dedup_window_seconds=86400,
)
PUBLISHING = replace(SETTINGS, publishes=PUBLISHES)

quick = hypothesis.settings(deadline=None, database=None, max_examples=40)

Function = Callable[[Any, Transaction], None]
Call = tuple[str, dict[str, Any]]


class Note(Struct, frozen=True):
    """The data of every event here: a counter, and the amount to add to it."""

    name: str
    amount: int = 1


class SoldOut(Refusal):
    """The refusal that the tests raise."""


def count(event: Note, tx: Transaction) -> None:
    tx.update(COUNTERS, {"name": event.name}, "ADD amount :a", {":a": event.amount})


def consumer_of(
    function: Function = count, *, model: type[Note] = Note, **options: Any
) -> Consumer:
    consumer = Consumer("notes")
    consumer.table("counters")
    consumer.handles("noted", model, **options)(function)
    return consumer


def note(name: str = "a", amount: int = 1, event_id: str | None = None) -> dict[str, Any]:
    return cloud_event("noted", {"name": name, "amount": amount}, event_id=event_id)


def event_of(data: Any = None, **attributes: Any) -> CloudEvent:
    return CloudEvent(**{"id": "e", "source": "/s", "type": "noted", "data": data, **attributes})


def offline(item: dict[str, Any] | None = None) -> Transaction:
    """A transaction whose reads all find the same item."""
    identity = Identity("notes#e", "f")
    return Transaction(event_of(), identity, PUBLISHING, read=lambda table, key: item)


def record(
    body: str,
    message_id: str,
    *,
    receive_count: int = 1,
    group: str | None = None,
    number: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """A message in the form of Lambda's event; with a group, the `number`th of a FIFO queue."""
    attributes = {
        "ApproximateReceiveCount": str(receive_count),
        "ApproximateFirstReceiveTimestamp": "1700000000000",
        "SentTimestamp": str(int(time.time() * 1000)),
    }
    in_group = {"MessageGroupId": group, "SequenceNumber": str(number)}
    return {
        "messageId": message_id,
        "receiptHandle": f"handle-of-{message_id}",
        "body": body,
        "attributes": attributes | (in_group if group else {}),
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:1:queue" + (".fifo" if group else ""),
        **more,
    }


class Killed(BaseException):
    """Ends the function as if its process were killed."""

    dead = False
    """Whether the process that runs is dead: none of its calls to AWS leaves it."""


def die() -> NoReturn:
    """Kill the process that runs, from code that the library calls."""
    Killed.dead = True
    raise Killed


@contextmanager
def process(runtime: Runtime) -> Iterator[None]:
    """Run a process, which `die` ends: the library must not get anything done after it."""

    def check(**_: Any) -> None:
        if Killed.dead:
            raise Killed

    clients = (runtime.dynamodb, runtime.sqs)
    for client in clients:
        client.meta.events.register("before-call", check, unique_id="death")
    try:
        yield
    finally:
        Killed.dead = False
        for client in clients:
            client.meta.events.unregister("before-call", unique_id="death")


def invoke(
    aws: FakeAws,
    consumer: Consumer,
    *records: Mapping[str, Any],
    context: FakeContext | None = None,
) -> list[str]:
    """Call the function with these records; return the message ids that it reports as failed."""
    handle = consumer.bound_to(aws.runtime)
    with process(aws.runtime):
        return failures(handle({"Records": list(records)}, context or FakeContext()))


def failures(answer: Any) -> list[str]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def facts(dead_letter: Mapping[str, Any]) -> dict[str, str]:
    """The explaining attributes of a dead letter, without the prefix of their names."""
    attributes = dead_letter["MessageAttributes"].items()
    return {n.removeprefix("once-"): v.get("StringValue", "") for n, v in attributes}


def redriven(dead_letter: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a redriven dead letter, in the form of Lambda's event."""
    return {
        name: {"stringValue": value["StringValue"], "dataType": "String"}
        if "StringValue" in value
        else {"binaryValue": b64encode(value["BinaryValue"]).decode(), "dataType": "Binary"}
        for name, value in dead_letter["MessageAttributes"].items()
    }


def reasons(aws: FakeAws) -> list[str]:
    return [facts(dead_letter)["reason"] for dead_letter in aws.dead_letters()]


def published(aws: FakeAws) -> list[tuple[str, str, Any]]:
    """Type, subject and data of every event in the outboxes."""
    return [(event["type"], event["subject"], event["data"]) for event in aws.published()]


def amounts(aws: FakeAws) -> dict[str, int]:
    return {item["name"]: int(item["amount"]) for item in aws.items("counters")}


@contextmanager
def calls(client: Any) -> Iterator[list[Call]]:
    """Record every call of a client: the operation, and its parameters."""
    made: list[Call] = []
    event = f"provide-client-params.{client.meta.service_model.service_name}"

    def remember(params: dict[str, Any], model: Any, **_: Any) -> None:
        if "TransactItems" in params:
            params = params | {"TransactItems": decode(encode(params["TransactItems"]))}
        made.append((model.name, params))

    client.meta.events.register(event, remember)
    try:
        yield made
    finally:
        client.meta.events.unregister(event, remember)


class Log:
    """Captures the log of a function."""

    def __init__(self, aws: FakeAws) -> None:
        self._stream = StringIO()
        logger = Logger(service=uuid4().hex, stream=self._stream)
        metrics = MetricsLog(write=lambda line: self._stream.write(f"{line}\n"))
        aws.runtime = replace(aws.runtime, logger=logger, metrics=metrics)

    def text(self) -> str:
        return self._stream.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text().splitlines()]


class Bench:
    """Transactions and their committer, without a handler."""

    def __init__(self, aws: FakeAws) -> None:
        self.aws = aws
        self.client = aws.runtime.dynamodb

    @property
    def committer(self) -> Committer:
        return committer_of(self.aws.runtime)

    @property
    def ledger(self) -> EffectLedger:
        runtime, settings = self.aws.runtime, self.aws.runtime.settings
        margin = settings.lease_margin_seconds
        return EffectLedger(
            runtime.dynamodb, settings.dedup_table, runtime.clock, runtime.logger, margin
        )

    def request(self, transaction: Transaction) -> CommitRequest:
        """The request that commits a transaction."""
        return self.committer.request(transaction, self.aws.runtime.clock())

    def transaction(self, name: str = "a", *, fingerprint: str = "f") -> Transaction:
        """An event's transaction, still empty; `name` is its identity."""
        identity = Identity(f"notes#{name}", fingerprint)
        read = partial(read_item, self.client)
        return Transaction(event_of(id=name), identity, PUBLISHING, read=read)

    def counting(self, name: str = "a", *, fingerprint: str = "f") -> Transaction:
        """A transaction that counts on the item of the same name."""
        tx = self.transaction(name, fingerprint=fingerprint)
        count(Note(name), tx)
        return tx

    def commit(self, *transactions: Transaction) -> list[CommitResult]:
        """Commit transactions together; a single one may be impossible to send."""
        try:
            requests = [self.request(transaction) for transaction in transactions]
        except PermanentError as error:
            assert len(transactions) == 1
            return [failed(error)]
        return self.committer.commit(requests)
