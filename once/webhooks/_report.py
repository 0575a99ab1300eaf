"""Report of a request: one line of metrics, and one of the log if it failed."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from aws_lambda_powertools import Logger

from once.errors import Contention, OnceError, OutcomeUnknown, RequestRefused, Unexpected
from once.metric_names import Metric
from once.metrics_log import MetricsLog
from once.webhooks.capture import Standing
from once.webhooks.endpoint import Endpoint
from once.webhooks.http import LambdaAnswer, answer

_OF_AWS = (Contention, OutcomeUnknown, RequestRefused)
"""Errors whose text names a service and AWS's error code, and no part of a request."""

_BY_STANDING = {
    Standing.UNREADABLE: Metric.WEBHOOKS_UNREADABLE,
    Standing.UNPUBLISHABLE: Metric.WEBHOOKS_UNPUBLISHABLE,
    Standing.CONFLICT: Metric.WEBHOOK_CONFLICTS,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a request.

    Attributes:
        answer: the answer.
        metric: the metric that counts it.
        standing: what became of the webhook; None if it was not captured now.
        key_hash: the hash of its dedup key; empty if it was not captured now or before.
        error: why it was not captured; without any part of the request.
    """

    answer: LambdaAnswer
    metric: str
    standing: Standing | None = None
    key_hash: str = ""
    error: str = ""

    @classmethod
    def failed(cls, error: Exception) -> Self:
        """Return the outcome of a webhook that the provider has to send again."""
        known = error if isinstance(error, OnceError) else Unexpected(error)
        text = f"{known.summary}: {error}" if isinstance(error, _OF_AWS) else known.summary
        return cls(answer(503), Metric.WEBHOOKS_FAILED, error=text)


@dataclass(frozen=True, slots=True)
class Report:
    """Writes one line for each request.

    Attributes:
        metrics: prints the figures, with endpoint, standing and hash of the key beside them.
        logger: logs the requests that failed.
        clock: the time, in seconds since the epoch.
    """

    metrics: MetricsLog
    logger: Logger
    clock: Callable[[], float]

    def write(self, outcome: Outcome, endpoint: Endpoint | None, began: float) -> None:
        """Count a request that began at this time, in seconds since the epoch."""
        properties = {
            "endpoint": "" if endpoint is None else endpoint.name,
            "standing": str(outcome.standing or ""),
            "key_hash": outcome.key_hash,
        }
        given: dict[str, Any] = {name: value for name, value in properties.items() if value}
        # A captured webhook is answered with success, whether it can be counted or not.
        with suppress(Exception):
            self.metrics.report(self._figures(outcome, began), self.clock(), **given)
            self.metrics.flush()
            if outcome.error:
                self.logger.warning("webhook not captured", extra={**given, "error": outcome.error})

    def _figures(self, outcome: Outcome, began: float) -> dict[str, list[float]]:
        figures: dict[str, list[float]] = {outcome.metric: [1]}
        if outcome.standing in _BY_STANDING:
            figures[_BY_STANDING[outcome.standing]] = [1]
        if outcome.key_hash:
            figures[Metric.WEBHOOK_MS] = [round((self.clock() - began) * 1000, 3)]
        return figures
