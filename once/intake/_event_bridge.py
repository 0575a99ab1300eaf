"""EventBridge's envelope: `detail-type` becomes the event type, and `detail` the data.

EventBridge keeps the id of an event when it delivers it again. A producer that calls PutEvents
again gets another id.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from once.deadline import Deadline
from once.errors import InvalidEvent, NoKey, UntrustedSource
from once.events.cloud_event import CloudEvent
from once.events.strict_json import parse
from once.source import EventBridgeSource

_EXTENSIONS = ("account", "region", "resources")


class _Envelope(msgspec.Struct, rename={"detail_type": "detail-type"}):
    id: str
    source: str
    detail_type: str
    time: str
    account: str
    region: str
    resources: list[str]
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventBridgeAdapter:
    """Reads the events of one rule."""

    source: EventBridgeSource

    def __call__(
        self, body: str, *, max_bytes: int, deadline: Deadline | None = None
    ) -> CloudEvent:
        """Return the event in a body; see `once.intake.adapter.Adapter`."""
        tree = parse(body, max_bytes=max_bytes, deadline=deadline)
        try:
            envelope = msgspec.convert(tree, _Envelope)
        except msgspec.ValidationError as error:
            raise InvalidEvent(f"not an event of EventBridge: {error}") from None
        self._check(envelope)
        return CloudEvent(
            id=envelope.id,
            source=envelope.source,
            type=envelope.detail_type,
            time=envelope.time,
            data=envelope.detail,
            extensions={name: getattr(envelope, name) for name in _EXTENSIONS},
        )

    def _check(self, envelope: _Envelope) -> None:
        if not envelope.id.strip():
            raise NoKey("the event has no id: EventBridge sets one on every event")
        if not envelope.detail_type.strip():
            raise InvalidEvent("detail-type is blank")
        if envelope.source not in self.source.sources:
            raise UntrustedSource(
                f"the rule selects events of {' or '.join(self.source.sources)} only: add the "
                "source to Source.event_bridge(…) of the consumer's declaration in the CDK app"
            )
