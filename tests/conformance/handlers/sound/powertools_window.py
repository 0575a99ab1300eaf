"""Orders a shipment. Powertools remembers it longer than a message can live, and its content."""

import json
import os
from typing import Any

import urllib3
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
from aws_lambda_powertools.utilities.typing import LambdaContext

http = urllib3.PoolManager(timeout=10, retries=False)
processor = BatchProcessor(event_type=EventType.SQS)
config = IdempotencyConfig(
    event_key_jmespath="shipment_id",
    payload_validation_jmespath="[parcel, address]",
    raise_on_no_idempotency_key=True,
    expires_after_seconds=30 * 24 * 60 * 60,
)
store = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY"])


@idempotent_function(  # type: ignore[untyped-decorator]
    data_keyword_argument="shipment", config=config, persistence_store=store
)
def order(shipment: dict[str, Any]) -> None:
    answer = http.request(
        "POST",
        os.environ["CARRIER_API"] + "/shipments",
        body=json.dumps({"parcel": shipment["parcel"], "address": shipment["address"]}),
        headers={"Idempotency-Key": shipment["shipment_id"], "Content-Type": "application/json"},
    )
    if answer.status != 200:
        raise RuntimeError(f"the order of the shipment was answered with {answer.status}")


def ship(record: SQSRecord) -> None:
    order(shipment=record.json_body)


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    config.register_lambda_context(context)
    return process_partial_response(event, ship, processor, context)
