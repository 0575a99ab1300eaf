"""Capture filter: conditions by which captures are selected, from texts that an operator gave."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from typer import BadParameter

from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.terminal.timestamps import parse_time_option
from once.schema import CLOCK_MARGIN_SECONDS
from once.webhooks.capture import Capture, Standing

LIST_PERIOD = timedelta(days=1)
SEARCH_PERIOD = timedelta(days=31)
"""Time that a search for an id looks back: a capture is kept for 30 days by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFilter:
    """Selects captures that match every condition that is not None.

    Attributes:
        since: received at this time or later.
        until: received before this time.
        endpoint: the endpoint.
        type: the provider's type, or the event's.
        standing: the standing of the capture.
    """

    since: datetime
    until: datetime
    endpoint: str | None = None
    type: str | None = None
    standing: Standing | None = None

    @classmethod
    def of(
        cls,
        since: str | None,
        until: str | None,
        period: timedelta,
        *,
        endpoint: str | None = None,
        webhook_type: str | None = None,
        standing: Standing | None = None,
    ) -> "CaptureFilter":
        """Parse the options.

        Args:
            since: the option `--since`.
            until: the option `--until`.
            period: the time before `until` that is looked at without `since`.
            endpoint: the option `--endpoint`.
            webhook_type: the option `--type`.
            standing: the option `--standing`.

        Raises:
            typer.BadParameter: a time cannot be read, or nothing is in between.
        """
        now = datetime.now(UTC)
        # The clock of a function may be fast: its last captures have a time ahead of now.
        end = now + timedelta(seconds=CLOCK_MARGIN_SECONDS)
        if until is not None:
            end = parse_time_option(until, now=now, option="--until")
        start = _start(since, now, min(now, end) - period)
        if start >= end:
            raise BadParameter(
                f"{start.isoformat()} is not before {'--until' if until else 'now'}: nothing was "
                "received in between",
                param_hint="--since",
            )
        return cls(since=start, until=end, endpoint=endpoint, type=webhook_type, standing=standing)

    def for_log(self) -> dict[str, str | None]:
        """Return the conditions for the operator log."""
        times = {"since": self.since.isoformat(), "until": self.until.isoformat()}
        return {**times, "endpoint": self.endpoint, "type": self.type, "standing": self.standing}

    def endpoints(self, webhooks: DeployedWebhooks) -> Sequence[str]:
        """Return the names of the endpoints whose captures are looked at.

        Raises:
            OpsError: there is no endpoint of this name.
        """
        if self.endpoint is None:
            return [*webhooks.endpoints]
        return [webhooks.endpoint(self.endpoint).name]

    def matches(self, capture: Capture) -> bool:
        """Tell whether a capture of these endpoints and times matches."""
        types = (None, capture.webhook_type, capture.event_type or "")
        return self.type in types and self.standing in (None, capture.standing)


def _start(since: str | None, now: datetime, otherwise: datetime) -> datetime:
    return otherwise if since is None else parse_time_option(since, now=now, option="--since")
