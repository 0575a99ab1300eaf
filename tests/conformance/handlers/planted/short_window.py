"""Refunds a payment. Powertools remembers a refund for an hour, its default."""

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
config = IdempotencyConfig(event_key_jmespath="refund_id")
store = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY"])


@idempotent_function(  # type: ignore[untyped-decorator]
    data_keyword_argument="refund", config=config, persistence_store=store
)
def send(refund: dict[str, Any]) -> None:
    answer = http.request(
        "POST",
        os.environ["PAYMENTS_API"] + "/refunds",
        body=json.dumps({"payment": refund["payment"], "amount": refund["amount"]}),
        headers={"Idempotency-Key": refund["refund_id"], "Content-Type": "application/json"},
    )
    if answer.status != 200:
        raise RuntimeError(f"the refund was answered with {answer.status}")


def refund_payment(record: SQSRecord) -> None:
    send(refund=record.json_body)


def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    config.register_lambda_context(context)
    return process_partial_response(event, refund_payment, processor, context)
