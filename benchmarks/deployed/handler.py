"""One package under three names: the deployed name selects the contender."""

from dataclasses import replace
from typing import Any

import boto3
from aws_lambda_powertools import Logger

from once.runtime import Runtime
from once.sdk import SDK
from once.settings import Settings

from .library import consumer_of
from .names import RAW, UNGROUPED
from .raw import Raw

settings = Settings.from_env()


def _raw() -> Any:
    logger = Logger(service=RAW)
    handle = Raw(boto3.client("dynamodb", config=SDK), settings)

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        # One line for each batch, as in the library: the embedded AWS is slower without one.
        logger.info("batch")
        return handle(event, context)

    return handler


def _library() -> Any:
    size = 1 if settings.consumer == UNGROUPED else settings.group_size
    consumer = consumer_of(settings.consumer)
    return consumer.bound_to(Runtime.of(replace(settings, group_size=size)))


lambda_handler = _raw() if settings.consumer == RAW else _library()
