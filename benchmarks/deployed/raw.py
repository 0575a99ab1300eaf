"""One transaction for each message, with boto3 alone: the baseline of the library."""

import json
import time
from typing import Any

from botocore.exceptions import ClientError

from once.runtime.deadline import Deadline
from once.settings import Settings

from .order import serialized

_MAX_ATTEMPTS = 10


class Raw:
    """Commits each message's order together with a dedup record."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client, self._settings = client, settings

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Process a batch, and return the messages that must be delivered again."""
        # The pause between attempts is the library's, so that it makes no difference.
        deadline = Deadline(context.get_remaining_time_in_millis, self._settings.time_margin_ms)
        failed = [r for r in event["Records"] if not self._commit(json.loads(r["body"]), deadline)]
        return {"batchItemFailures": [{"itemIdentifier": r["messageId"]} for r in failed]}

    def _commit(self, event: dict[str, Any], deadline: Deadline) -> bool:
        table = self._settings.tables["orders"].name
        order = {"TableName": table, "Item": serialized(event["data"])}
        entries = [{"Put": claim_of(event, self._settings)}, {"Put": order}]
        for attempt in range(_MAX_ATTEMPTS):
            if attempt and not deadline.pause(attempt - 1):
                return False
            try:
                self._client.transact_write_items(TransactItems=entries)
            except ClientError as error:
                codes = [r["Code"] for r in error.response.get("CancellationReasons", ())]
                if codes[:1] == ["ConditionalCheckFailed"]:
                    return True  # a duplicate
                if "TransactionConflict" not in codes:
                    return False
            else:
                return True
        return False


def claim_of(event: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the put of an event's dedup record, under the condition that it is new."""
    now = int(time.time())
    record = {
        "pk": {"S": f"{settings.consumer}#{event['source']}#{event['id']}"},
        "expires_at": {"N": str(now + settings.dedup_window_seconds)},
    }
    return {
        "TableName": settings.dedup_table,
        "Item": record,
        "ConditionExpression": "attribute_not_exists(pk) OR expires_at < :now",
        "ExpressionAttributeValues": {":now": {"N": str(now)}},
    }
