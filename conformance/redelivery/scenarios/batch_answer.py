"""A function's answer, as Lambda's SQS mapping reads it."""

from collections.abc import Collection, Mapping
from typing import Any


def failed_ids(answer: Any, records: list[dict[str, Any]], *, partial: bool) -> Collection[str]:
    """Return the ids of the messages that come again.

    With `ReportBatchItemFailures`, an empty or absent list means success, and an answer that is
    malformed or names an unknown message means that the whole batch failed:
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html

    Args:
        answer: what the handler returned.
        records: the batch.
        partial: whether the mapping has `ReportBatchItemFailures`.
    """
    everything = {record["messageId"] for record in records}
    failures = answer.get("batchItemFailures") if isinstance(answer, Mapping) else None
    if not partial or not failures:
        return ()
    if not isinstance(failures, list):
        return everything
    named = {_identifier(failure) for failure in failures}
    return named if named <= everything else everything


def _identifier(failure: Any) -> str:
    found = failure.get("itemIdentifier") if isinstance(failure, Mapping) else None
    return found if isinstance(found, str) else ""
