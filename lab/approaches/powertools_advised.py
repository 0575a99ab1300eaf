"""Powertools' batch and idempotency utilities, with every option that their documentation advises.

Advised by: Powertools for AWS Lambda (Python), "Idempotency": choose a part of the payload as key,
validate the rest, require the key, register the Lambda context, adjust the expiry.
Promises: safeguards for "concurrent requests, timeouts, missing idempotency keys, and payload
tampering".
Leaves out, in its own words: after a timeout the record is INPROGRESS, and the function runs again
"as if it was in the EXPIRED state". What the first run has done by then is done again.
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
config = IdempotencyConfig(
    event_key_jmespath="powertools_json(body).order_id",
    payload_validation_jmespath="powertools_json(body).[customer_id, amount]",
    raise_on_no_idempotency_key=True,
    expires_after_seconds=30 * 24 * 60 * 60,  # longer than a message and its dead letter may live
)


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
