"""The contenders: ways to handle a batch, in the order of the tables."""

import json
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any

from aws_lambda_powertools import Logger
from botocore.config import Config

from benchmarks.deployed.order import consumer_of, serialized
from benchmarks.deployed.powertools import powertools, stores
from benchmarks.deployed.raw import Raw, claim_of
from benchmarks.dynamodb import DEDUP, IDEMPOTENCY, KEYS, ORDERS
from benchmarks.orders import EVENT_TYPE, QUEUE_ARN, Event
from once import Consumer, Key
from once.consumer import Runtime
from once.runtime.sdk import SDK
from once.settings import Dedup, Settings, TableSettings
from once.testing.events import FakeContext

PLAIN, CLAIM, POWERTOOLS = "plain put", "claim, then put", "Powertools"
RAW, RAW_DEFAULT = "raw transaction", "raw, default client"
UNGROUPED, GROUPED, GROUPED_THREADS = "Once", "Once, grouped", "Once, 4 threads"
ITEM, ITEM_GROUPED = "Once, item", "Once, item, grouped"
NAME = "bench"
GROUP, _THREADS = 10, 4
WINDOW_SECONDS = 45 * 24 * 60 * 60
LOG = StringIO()
"""Target of log and metrics: writing them is part of the measured work."""

Handle = Callable[[Event, FakeContext], Any]
"""A Lambda function; it answers with `batchItemFailures`."""

BOTO3 = SDK.merge(Config(user_agent=None))
"""The library's client settings, with the User-Agent that the SDK builds for each request."""

Connect = Callable[[str], Any]
"""Makes a client of the named service."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to handle a batch.

    `prepare` makes the warm function. `requests` is the number of requests for a message without
    faults. With `exactly_once`, a duplicate changes nothing. With `groups`, several messages commit
    at once, in groups of adaptive size. Without a `config`, its clients have boto3's settings.
    """

    name: str
    prepare: Callable[[Connect], Handle]
    requests: float
    exactly_once: bool = True
    groups: bool = False
    config: Config | None = BOTO3


def settings_of(**more: Any) -> Settings:
    """Return the settings of the contenders; `more` replaces single fields."""
    return Settings(
        consumer=NAME,
        event_types=(EVENT_TYPE,),
        queue_url=QUEUE_ARN,
        dead_letter_url=QUEUE_ARN,
        dedup_table=DEDUP,
        tables={ORDERS: TableSettings(ORDERS, (KEYS[ORDERS],))},
        dedup_window_seconds=WINDOW_SECONDS,
        **more,
    )


def _put(connect: Connect) -> Handle:
    client = connect("dynamodb")

    def handle(event: Event, _: FakeContext) -> Any:
        for record in event["Records"]:
            data = json.loads(record["body"])["data"]
            client.put_item(TableName=ORDERS, Item=serialized(data))
        return {"batchItemFailures": []}

    return handle


def _claim_then_put(connect: Connect) -> Handle:
    client, settings = connect("dynamodb"), settings_of()

    def handle(event: Event, _: FakeContext) -> Any:
        for record in event["Records"]:
            message = json.loads(record["body"])
            with suppress(client.exceptions.ConditionalCheckFailedException):
                client.put_item(**claim_of(message, settings))
                client.put_item(TableName=ORDERS, Item=serialized(message["data"]))
        return {"batchItemFailures": []}

    return handle


def _idempotent_then_put(connect: Connect) -> Handle:
    records, client = IDEMPOTENCY, connect("dynamodb")
    return powertools(stores(client, ORDERS), client, records=records, key=KEYS[records])


def _raw(connect: Connect) -> Handle:
    return Raw(connect("dynamodb"), settings_of())


def quiet(handle: Handle) -> Handle:
    """Return a function whose metrics are written into memory."""

    def handled(event: Event, context: FakeContext) -> Any:
        with redirect_stdout(LOG):
            return handle(event, context)

    return handled


def once(consumer_of: Callable[[], Consumer], **settings: Any) -> Callable[[Connect], Handle]:
    """Return a `prepare` for the library's consumer with these settings, as in a warm function."""

    def prepare(connect: Connect) -> Handle:
        runtime = Runtime(
            settings=settings_of(**settings),
            dynamodb=connect("dynamodb"),
            sqs=connect("sqs"),
            logger=Logger(service=NAME, stream=LOG),
        )
        return quiet(consumer_of().bound_to(runtime))

    return prepare


def _once(dedup: Dedup = Dedup.RECORD, **settings: int) -> Callable[[Connect], Handle]:
    key = Key.field("order_id") if dedup is Dedup.ITEM else Key.event()
    return once(lambda: consumer_of(NAME, key), dedup=dedup, **settings)


def _grouped(name: str, dedup: Dedup = Dedup.RECORD, *, threads: int = 1) -> Contender:
    prepare = _once(dedup, group_size=GROUP, commit_threads=threads)
    return Contender(name, prepare, requests=1 / GROUP, groups=True, config=SDK)


CONTENDERS = (
    Contender(PLAIN, _put, requests=1, exactly_once=False),
    Contender(CLAIM, _claim_then_put, requests=2),
    Contender(POWERTOOLS, _idempotent_then_put, requests=3),
    Contender(RAW, _raw, requests=1),
    Contender(RAW_DEFAULT, _raw, requests=1, config=None),
    Contender(UNGROUPED, _once(group_size=1, commit_threads=1), requests=1, config=SDK),
    _grouped(GROUPED),
    _grouped(GROUPED_THREADS, threads=_THREADS),
    Contender(ITEM, _once(Dedup.ITEM, group_size=1, commit_threads=1), requests=1, config=SDK),
    _grouped(ITEM_GROUPED, Dedup.ITEM),
)
