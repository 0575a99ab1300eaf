"""One package under several names: the function's environment selects the contender."""

import os
from collections.abc import Callable
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from msgspec.structs import replace

from once.consumer import Runtime
from once.names import Record
from once.runtime.sdk import SDK
from once.settings import Settings

from .order import NOTHING, ORDERS, POWERTOOLS, RAW, UNGROUPED, consumer_of
from .raw import Raw

Handle = Callable[[dict[str, Any], Any], Any]


def _nothing(event: dict[str, Any], _: Any) -> dict[str, Any]:
    """Read the batch, and acknowledge it."""
    for record in event["Records"]:
        record["body"]
    return {"batchItemFailures": []}


def _logged(handle: Handle) -> Handle:
    logger = Logger(service="bench")

    def handler(event: dict[str, Any], context: Any) -> Any:
        # One line for each invocation, as in the library: the embedded AWS is slower without one.
        logger.info("handled")
        return handle(event, context)

    return handler


def _made() -> Handle:
    if secret := os.environ.get("WEBHOOKS_SECRET"):
        from .verify_then_put import verify_then_put

        client, table = boto3.client("dynamodb", config=SDK), os.environ["WEBHOOKS_TABLE"]
        return _logged(verify_then_put(client, table=table, secret=secret))
    settings = Settings.from_env()
    name = settings.consumer
    if name == NOTHING:
        return _logged(_nothing)
    if name == RAW:
        return _logged(Raw(boto3.client("dynamodb", config=SDK), settings))
    if name == POWERTOOLS:
        # Imported late: the other functions do not need it.
        from .powertools import powertools, stores

        client, records = boto3.client("dynamodb", config=SDK), settings.dedup_table
        stored = stores(client, settings.tables[ORDERS].name)
        return _logged(powertools(stored, client, records=records, key=Record.PK))
    size = 1 if name == UNGROUPED else settings.group_size
    return consumer_of(name).bound_to(Runtime.of(replace(settings, group_size=size)))


lambda_handler = _made()
