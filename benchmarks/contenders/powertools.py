"""Powertools as documented: one idempotent function call for each record, and partial answers."""

import json
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

from benchmarks.contenders.base import Connect, Handle
from benchmarks.deployed.item import serialized
from benchmarks.dynamodb import IDEMPOTENCY, ORDERS
from benchmarks.orders import Event


def idempotent_then_put(connect: Connect) -> Handle:
    """Three requests for each message: in progress, the order, done."""
    client = connect("dynamodb")
    processor = BatchProcessor(event_type=EventType.SQS)
    config = IdempotencyConfig(event_key_jmespath="[source, id]")
    records = DynamoDBPersistenceLayer(IDEMPOTENCY, boto3_client=client)

    def store_order(*, message: dict[str, Any]) -> None:
        client.put_item(TableName=ORDERS, Item=serialized(message["data"]))

    place = idempotent_function(
        store_order, data_keyword_argument="message", config=config, persistence_store=records
    )

    def work(record: SQSRecord) -> None:
        place(message=json.loads(record.body))

    def handle(event: Event, context: Any) -> Any:
        config.register_lambda_context(context)
        return process_partial_response(
            event=event, record_handler=work, processor=processor, context=context
        )

    return handle
