"""What a contender is: a way to handle a batch, and what it claims to need for it."""

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

Connect = Callable[[str], Any]
"""Makes a client of the service with this name."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to handle a batch.

    Attributes:
        name: what tables call it.
        prepare: makes the warm function, from a maker of clients.
        requests: how many it needs for a message when nothing goes wrong.
        exactly_once: whether a duplicate changes nothing.
        groups: whether it commits several messages at once, and learns how many to.
        config: of its clients; None leaves boto3 its own defaults.
    """

    name: str
    prepare: Callable[[Connect], Handle]
    requests: float
    exactly_once: bool = True
    groups: bool = False
    config: Config | None = SDK


def settings(**more: Any) -> Settings:
    """Return the settings of all contenders; `more` are fields with another value."""
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
