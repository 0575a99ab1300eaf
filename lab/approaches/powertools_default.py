"""Powertools' batch and idempotency utilities, as their documentation's example combines them.

Advised by: Powertools for AWS Lambda (Python), "Idempotency", section "Batch processing": the
MessageId is the key, everything else has its default.
Promises: a retry within the time window has the result of the first execution.
Leaves out, in its own words: records expire "after an hour" by default; after that "a transaction
with the same payload will not be considered idempotent". After a timeout the function runs again.
"""

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

from lab.approaches.checkout import charge, store

processor = BatchProcessor(event_type=EventType.SQS)
persistence = DynamoDBPersistenceLayer(table_name="idempotency")
config = IdempotencyConfig(event_key_jmespath="messageId")


@idempotent_function(data_keyword_argument="record", config=config, persistence_store=persistence)  # type: ignore[untyped-decorator]
def record_handler(record: SQSRecord) -> None:
    """Charge the card and store the order."""
    order = record.json_body
    store(order, charge(order["order_id"], order["amount"]))


def lambda_handler(event: dict[str, Any], context: Any) -> Any:
    """Process a batch of orders."""
    config.register_lambda_context(context)
    return process_partial_response(
        event=event, record_handler=record_handler, processor=processor, context=context
    )
