"""Contender: a way to handle a batch, and the number of requests that it claims to need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.config import Config

from benchmarks.dynamodb import DEDUP, KEYS, ORDERS
from benchmarks.orders import EVENT_TYPE, QUEUE_ARN, Event
from once.sdk import SDK
from once.settings import Settings, TableSettings
from once.testing.events import FakeContext

NAME = "bench"

Handle = Callable[[Event, FakeContext], Any]
"""A Lambda function; it answers with `batchItemFailures`."""

BOTO3 = SDK.merge(Config(user_agent=None))
"""The library's client settings, with the User-Agent that the SDK builds for each request."""

Connect = Callable[[str], Any]
"""Makes a client of the named service."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to handle a batch.

    Attributes:
        name: its name in the tables.
        prepare: makes the warm function; takes a function that makes clients.
        requests: number of requests for a message without faults.
        exactly_once: whether a duplicate changes nothing.
        groups: whether it commits several messages at once, in groups of adaptive size.
        config: settings of its clients; None for boto3's defaults.
    """

    name: str
    prepare: Callable[[Connect], Handle]
    requests: float
    exactly_once: bool = True
    groups: bool = False
    config: Config | None = BOTO3


def settings(**more: Any) -> Settings:
    """Return the settings of the contenders; `more` replaces single fields."""
    tables = {ORDERS: TableSettings(ORDERS, (KEYS[ORDERS],))}
    return Settings(
        consumer=NAME,
        event_types=(EVENT_TYPE,),
        queue_url=QUEUE_ARN,
        dead_letter_url=QUEUE_ARN,
        dedup_table=DEDUP,
        tables=tables,
        dedup_window_seconds=45 * 24 * 60 * 60,
        **more,
    )
