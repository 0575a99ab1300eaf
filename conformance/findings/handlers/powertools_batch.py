"""Powertools' documented example of the batch processor with the idempotency utility.

The example's `record_handler` returns the body and changes nothing. How often it runs is therefore
counted: it reads the record's body once.
"""

import sys
from collections.abc import Sequence
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from findings.public_handler import PublicHandler
from redelivery import Store, Subject, Table

_body: Any = vars(SQSRecord)["body"].fget
_runs: list[str] = []


def _counted_body(record: SQSRecord) -> str:
    body: str = _body(record)
    if sys._getframe(1).f_code.co_name == "record_handler":
        _runs.append(body)
    return body


def _reset() -> None:
    setattr(SQSRecord, "body", property(_counted_body))  # noqa: B010 - mypy: a property is no attribute
    _runs.clear()


def _rows() -> Sequence[dict[str, Any]]:
    return [{"body": body} for body in _runs]


HANDLER = PublicHandler(
    name="Powertools batch with idempotency",
    repository="aws-powertools/powertools-lambda-python",
    commit="fa1c29f2d497a7c233f06eb69d0f7ee1b187a9e4",
    path="examples/idempotency/src/integrate_idempotency_with_batch_processor.py",
    licence="MIT-0",
    package=("examples/idempotency/src/integrate_idempotency_with_batch_processor.py",),
    subject=Subject(
        handler="integrate_idempotency_with_batch_processor.lambda_handler",
        events=({"order_id": "o-1", "amount": 10}, {"order_id": "o-2", "amount": 20}),
        environment={"IDEMPOTENCY_TABLE": "idempotency"},
        tables=(Table("idempotency", key="id", ttl="expiration"),),
        stores=(Store("runs of record_handler", _reset, _rows),),
        timeout_seconds=5,
        visibility_seconds=30,
        max_receives=2,
        skip=("conflicted",),  # nothing writes to the table in a transaction
    ),
)
