"""Safety of a replay: whether consumers still know that they have processed an event."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.errors import OpsError
from once.schema import CLOCK_MARGIN_SECONDS, Limits, Record
from once.webhooks.capture import Capture

_STAY_SECONDS = Limits.QUEUE_STAY_SECONDS + CLOCK_MARGIN_SECONDS


@dataclass(frozen=True, slots=True)
class ReplaySafety:
    """Judges by the webhook's dedup record: those of its consumers are younger, and expire later.

    Attributes:
        records: reads dedup records.
        unsafe: whether everything is allowed.
    """

    records: DedupRecordReader
    unsafe: bool

    def check(self, capture: Capture) -> None:
        """Refuse a webhook whose event a consumer may have processed and forgotten.

        A message stays in queues for some days, and must arrive before the record expires.

        Raises:
            OpsError: it may have, and `unsafe` is not set.
        """
        if self.unsafe:
            return
        found = self.records.get([capture.pk])
        if not found or _expires_at(found[0]) < time.time() + _STAY_SECONDS:
            raise OpsError(
                "its dedup record expires soon or is gone, so that a consumer may have processed "
                "and forgotten it: look there, and give --unsafe to send it nevertheless"
            )


def _expires_at(record: Mapping[str, Any]) -> float:
    try:
        return float(record[Record.EXPIRES_AT]["N"])
    except (KeyError, TypeError, ValueError):
        return 0.0
