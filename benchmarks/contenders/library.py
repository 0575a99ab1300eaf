"""The library, as in a warm function."""

from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from typing import Any

from aws_lambda_powertools import Logger

from benchmarks.contenders.base import NAME, Connect, Handle, settings
from benchmarks.deployed.library import consumer_of
from benchmarks.orders import Event
from once import Key
from once.consumer import Runtime
from once.settings import Dedup
from once.testing.events import FakeContext

_LOG = StringIO()
"""Target of log and metrics: writing them is part of the measured work."""


_KEYS = {Dedup.RECORD: Key.event(), Dedup.ITEM: Key.field("order_id")}


def once(
    *, group_size: int, commit_threads: int = 1, dedup: Dedup = Dedup.RECORD
) -> Callable[[Connect], Handle]:
    """Return a `prepare` for the library with these settings."""
    return partial(_prepare, group_size, commit_threads, dedup)


def _prepare(group_size: int, commit_threads: int, dedup: Dedup, connect: Connect) -> Handle:
    runtime = Runtime(
        settings=settings(group_size=group_size, commit_threads=commit_threads, dedup=dedup),
        dynamodb=connect("dynamodb"),
        sqs=connect("sqs"),
        logger=Logger(service=NAME, stream=_LOG),
    )
    bound = consumer_of(NAME, _KEYS[dedup]).bound_to(runtime)

    def handle(event: Event, context: FakeContext) -> Any:
        with redirect_stdout(_LOG):
            return bound(event, context)

    return handle
