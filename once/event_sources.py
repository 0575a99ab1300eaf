"""Source: the service that sends a consumer its events, and the envelope that they arrive in.

The infrastructure makes the rule, the subscription, the notification or the schedule from it. By
it, the function chooses the adapter that takes the event out of the envelope.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import asdict

S3_TYPES = ("ObjectCreated", "ObjectRemoved")
"""Event types of `Source.s3`. S3 documents a sequencer, which the key needs, for these only."""


class Source(Struct, frozen=True):
    """The sender of a consumer's external events. Each constructor is a service and its envelope.

    An envelope's own id is a key only if that is declared (`envelope_id`): a producer that sends
    an event again gets a new id from the service.
    """

    kind: ClassVar[str]
    """The name of the constructor."""

    @property
    def key_rules(self) -> tuple[str, ...]:
        """The constructors of `once.Key` that can identify its events.

        Data of any service has fields and content. Only CloudEvents have attributes.
        """
        match self:
            case ScheduleSource() | SnsSource(is_plain=False):
                return ("event", "field", "attribute", "content")
            case S3Source() | EventBridgeSource(envelope_id=True) | SnsSource(envelope_id=True):
                return ("event", "field", "content")
        return ("field", "content")

    @staticmethod
    def event_bridge(
        *sources: str, bus: str = "default", envelope_id: bool = False
    ) -> "EventBridgeSource":
        """Events of an EventBridge bus; the event type is the `detail-type`.

        Args:
            sources: the values of `source` that the rule selects, such as `aws.ec2`.
            bus: the name of the event bus.
            envelope_id: whether the id that EventBridge gives an event may be its key.
        """
        return EventBridgeSource(sources, bus, envelope_id)

    @staticmethod
    def s3(bucket: str | None = None, *, prefix: str = "", suffix: str = "") -> "S3Source":
        """Notifications of a bucket; the event types are `ObjectCreated` and `ObjectRemoved`.

        Args:
            bucket: the bucket's name; None if the construct is given the bucket.
            prefix: only objects whose key begins with it.
            suffix: only objects whose key ends with it.
        """
        return S3Source(bucket, prefix, suffix)

    @staticmethod
    def sns(
        topic: str,
        *,
        attribute: str | None = None,
        type: str | None = None,  # noqa: A002 - the name of the CloudEvents attribute
        type_field: str | None = None,
        envelope_id: bool = False,
    ) -> "SnsSource":
        """Messages of an existing topic in SNS's envelope: CloudEvents, or plain JSON objects.

        Args:
            topic: the ARN of the topic.
            attribute: the message attribute by which the subscription selects the consumer's
                event types; None to take every message.
            type: the event type of every message; for plain JSON.
            type_field: the field of a message that holds its event type; for plain JSON.
            envelope_id: whether the id that SNS gives a message may be its key; for plain JSON.
        """
        return SnsSource(topic, attribute, type, type_field, envelope_id)

    @staticmethod
    def json(
        *,
        type: str | None = None,  # noqa: A002 - the name of the CloudEvents attribute
        type_field: str | None = None,
        senders: tuple[str, ...] = (),
    ) -> "JsonSource":
        """Plain JSON objects that producers send to the queue itself.

        Args:
            type: the event type of every message.
            type_field: the field of a message that holds its event type.
            senders: the ARNs of the principals that may send.
        """
        return JsonSource(type, type_field, senders)

    @staticmethod
    def schedule(expression: str, *, timezone: str = "UTC") -> "ScheduleSource":
        """One event at each time of a schedule of EventBridge Scheduler.

        Args:
            expression: `cron(…)`, `rate(…)` or `at(…)`.
            timezone: the name of its time zone in the tz database.
        """
        return ScheduleSource(expression, timezone)

    def to_builtins(self) -> dict[str, Any]:
        """Return the values from which `of_builtins` makes an equal source."""
        given = asdict(self)
        return {"kind": self.kind, **{n: v for n, v in given.items() if v}}

    @staticmethod
    def of_builtins(given: Mapping[str, Any]) -> "Source":
        """Read what `to_builtins` returned, also after it was JSON.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: it is something else.
        """
        named = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items() if n != "kind"}
        found: Source = _KINDS[given["kind"]](**named)
        return found


class EventBridgeSource(Source, frozen=True):
    """See `Source.event_bridge`."""

    kind = "event_bridge"
    sources: tuple[str, ...] = ()
    bus: str = "default"
    envelope_id: bool = False


class S3Source(Source, frozen=True):
    """See `Source.s3`. The id of an event is made of version, sequencer and object key."""

    kind = "s3"
    bucket: str | None = None
    prefix: str = ""
    suffix: str = ""


class SnsSource(Source, frozen=True):
    """See `Source.sns`. A CloudEvent has an id of its own; plain JSON has that of the envelope."""

    kind = "sns"
    topic: str
    attribute: str | None = None
    type: str | None = None
    type_field: str | None = None
    envelope_id: bool = False

    @property
    def is_plain(self) -> bool:
        return self.type is not None or self.type_field is not None


class JsonSource(Source, frozen=True):
    """See `Source.json`."""

    kind = "json"
    type: str | None = None
    type_field: str | None = None
    senders: tuple[str, ...] = ()


class ScheduleSource(Source, frozen=True):
    """See `Source.schedule`. The id of an event is its scheduled time."""

    kind = "schedule"
    expression: str
    timezone: str = "UTC"


_KINDS: dict[str, Any] = {
    each.kind: each for each in (EventBridgeSource, S3Source, SnsSource, JsonSource, ScheduleSource)
}


def key_rule_fault(rule: str, source: Source) -> str | None:
    """Return the mistake of a rule of `once.Key` that cannot identify the source's events."""
    if rule in source.key_rules:
        return None
    known = " or ".join(f"Key.{name}(…)" for name in source.key_rules)
    remedy = ", or declare envelope_id=True in its source" if hasattr(source, "envelope_id") else ""
    why = {
        "event": "has the default key, and a producer that sends an event of "
        f"Source.{source.kind} again gives it no id, or a new one",
        "attribute": f"has a key of an attribute, and events of Source.{source.kind} have none "
        "that identifies them",
    }
    return f"{why[rule]}; give key={known}{remedy if rule == 'event' else ''}"
