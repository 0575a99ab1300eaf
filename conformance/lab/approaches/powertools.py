"""Powertools' batch and idempotency utilities, by their documentation.

Advised by: Powertools for AWS Lambda (Python), "Idempotency". `powertools_default`: the example of
its section "Batch processing": the MessageId is the key, everything else has its default.
`powertools_advised` has every option that the page advises: a part of the payload is the key, the
rest is validated, the key is required, the Lambda context is registered, the expiry is adjusted.
Promises: a retry within the time window has the result of the first execution; with the options,
safeguards for "concurrent requests, timeouts, missing idempotency keys, and payload tampering".
Leaves out, in its own words: records expire "after an hour" by default; after that "a transaction
with the same payload will not be considered idempotent". After a timeout the record is INPROGRESS,
and the function runs again "as if it was in the EXPIRED state": what the first run did is repeated.
"""

import os
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
if "ADVISED" in os.environ:
    config = IdempotencyConfig(
        event_key_jmespath="powertools_json(body).order_id",
        payload_validation_jmespath="powertools_json(body).[customer_id, amount]",
        raise_on_no_idempotency_key=True,
        expires_after_seconds=30 * 24 * 60 * 60,  # longer than a message and its dead letter live
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
