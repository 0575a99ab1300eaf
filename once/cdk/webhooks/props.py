"""Properties of a webhook ingress."""

from dataclasses import dataclass
from pathlib import Path

from once.schema import Limits
from once.webhooks.endpoint import Endpoint

MESSAGE_BODY_BYTES = Limits.TOPIC_MESSAGE_BYTES - 16 * 1024
"""The largest body that fits into a message, beside the envelope of its event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookProps:
    """A webhook ingress: one function and one address, with a path for each endpoint.

    Attributes:
        endpoints: the endpoints.
        name: the first part of its dedup keys, and of the source of its events; it never changes.
        folder: the folder of its `handler.py`.
        aws_services: as in `ConsumerProps`.
        capture_days: the time for which a capture is kept.
        http_api: whether an HTTP API takes the requests, in place of the function URL.
        reserved_concurrency: the most requests that run at once, taken from the account's
            concurrency; None for no limit. A new account has 10 in all and can reserve none.
        memory_mb: the memory of the function.
        timeout_seconds: the timeout of the function.
    """

    endpoints: tuple[Endpoint, ...]
    name: str = "webhooks"
    folder: Path | None = None
    aws_services: tuple[str, ...] | None = None
    capture_days: int = 30
    http_api: bool = False
    reserved_concurrency: int | None = None
    memory_mb: int = 512
    timeout_seconds: int = 10

    @property
    def event_types(self) -> tuple[str, ...]:
        """The types of the events that it hands on."""
        return tuple(dict.fromkeys(t for each in self.endpoints for t in each.event_types))

    @property
    def largest_body(self) -> int:
        """The largest body that one of its endpoints reads, in bytes."""
        return max((each.limit for each in self.endpoints), default=0)

    @property
    def needs_claims(self) -> bool:
        """Whether it needs the claim-check bucket, for bodies that are too large for a message."""
        return self.largest_body > MESSAGE_BODY_BYTES
