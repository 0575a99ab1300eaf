"""Powertools as documented: one idempotent function call for each record, and partial answers."""

import json
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

from .order import serialized


def stores(client: Any, orders: str) -> Callable[..., None]:
    """Return the function that puts the order of a message."""

    def store_order(*, message: dict[str, Any]) -> None:
        client.put_item(TableName=orders, Item=serialized(message["data"]))

    return store_order


def idempotent(
    function: Callable[..., None], client: Any, *, records: str, key: str
) -> tuple[IdempotencyConfig, Callable[..., Any]]:
    """Return a function that runs once for each message, and the configuration that it reads."""
    config = IdempotencyConfig(event_key_jmespath="[source, id]")
    layer = DynamoDBPersistenceLayer(records, key_attr=key, boto3_client=client)
    return config, idempotent_function(
        function, data_keyword_argument="message", config=config, persistence_store=layer
    )


def powertools(
    function: Callable[..., None], client: Any, *, records: str, key: str
) -> Callable[[dict[str, Any], Any], Any]:
    """Return a Lambda function with two requests for each message: in progress, done."""
    processor = BatchProcessor(event_type=EventType.SQS)
    config, place = idempotent(function, client, records=records, key=key)

    def work(record: SQSRecord) -> None:
        place(message=json.loads(record.body))

    def handle(event: dict[str, Any], context: Any) -> Any:
        config.register_lambda_context(context)
        return process_partial_response(
            event=event, record_handler=work, processor=processor, context=context
        )

    return handle
