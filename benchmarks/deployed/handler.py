"""One package under several names: the deployed name selects the contender."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
from aws_lambda_powertools import Logger

from once.consumer import Runtime
from once.schema import Record
from once.sdk import SDK
from once.settings import Settings

from .library import consumer_of
from .names import NOTHING, ORDERS, POWERTOOLS, RAW, UNGROUPED
from .raw import Raw

Handle = Callable[[dict[str, Any], Any], Any]

settings = Settings.from_env()


def _nothing(event: dict[str, Any], _: Any) -> dict[str, Any]:
    """Read the batch, and acknowledge it."""
    for record in event["Records"]:
        record["body"]
    return {"batchItemFailures": []}


def _raw() -> Handle:
    return Raw(boto3.client("dynamodb", config=SDK), settings)


def _powertools() -> Handle:
    # Imported late: the other functions do not need it.
    from .powertools import powertools

    return powertools(
        boto3.client("dynamodb", config=SDK),
        orders=settings.tables[ORDERS].name,
        records=settings.dedup_table,
        key=Record.PK,
    )


def _logged(handle: Handle) -> Handle:
    logger = Logger(service=settings.consumer)

    def handler(event: dict[str, Any], context: Any) -> Any:
        # One line for each batch, as in the library: the embedded AWS is slower without one.
        logger.info("batch")
        return handle(event, context)

    return handler


def _library() -> Handle:
    size = 1 if settings.consumer == UNGROUPED else settings.group_size
    consumer = consumer_of(settings.consumer)
    return consumer.bound_to(Runtime.of(replace(settings, group_size=size)))


_OTHERS: dict[str, Callable[[], Handle]] = {
    NOTHING: lambda: _nothing,
    RAW: _raw,
    POWERTOOLS: _powertools,
}

make = _OTHERS.get(settings.consumer)
lambda_handler = _library() if make is None else _logged(make())
