"""Key rules: select the stable business identity of an event.

An SQS MessageId or a time of receipt cannot serve: both differ when the same event comes again.
The parts of a key are escaped and joined by `#`, so that two different events never share a key.
"""

import unicodedata
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from once.errors import NoKey, TooLarge
from once.events.cloud_event import CloudEvent
from once.schema import Limits

RULES = ("event", "field", "attribute", "content")
"""Names of the key rules; the second part of a dedup key."""

_SORT_KEY_BYTES = 1024
"""DynamoDB's limit for the value of a sort key."""

# Composed (NFC), a text has at least half as many bytes as it had characters before.
_MOST_CHARACTERS = 2 * Limits.PARTITION_KEY_BYTES


@dataclass(frozen=True, slots=True)
class Key:
    """A key rule, declared with the handler: `@consumer.handles(…, key=Key.field("order_id"))`.

    Attributes:
        rule: one of `RULES`, each the name of a constructor below.
        names: the arguments of that constructor.
    """

    rule: str
    names: tuple[str, ...] = ()

    @classmethod
    def event(cls) -> "Key":
        """Identity by CloudEvents `source` and `id`: the default."""
        return cls("event")

    @classmethod
    def field(cls, *paths: str) -> "Key":
        """Identity by one or more business fields of the data, with dots for nesting."""
        return cls("field", paths)

    @classmethod
    def attribute(cls, name: str) -> "Key":
        """Identity by `subject`, or an extension attribute such as a provider's own event id."""
        return cls("attribute", (name,))

    @classmethod
    def content(cls) -> "Key":
        """Identity by the fingerprint itself, for events that have no other."""
        return cls("content")

    @classmethod
    def of_record(cls, pk: str) -> "Key | None":
        """Return the rule that made a key, which the key itself states; None if no rule did."""
        match [_unescape(part) for part in pk.split("#")[1:]]:
            case ["event", _, _]:
                return cls.event()
            case ["field", _, *parts] if parts and len(parts) % 2 == 0:
                return cls.field(*parts[::2])
            case ["attribute", _, name, _]:
                return cls.attribute(name)
            case ["content", _, _]:
                return cls.content()
        return None

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths into the event's data that the rule reads."""
        return self.names if self.rule == "field" else ()

    def of(self, event: CloudEvent, *, fingerprint: str, consumer: str) -> str:
        """Return the partition key of the dedup record: the consumer, then the event's key.

        Raises:
            NoKey: a value that the rule reads is missing, null, blank, or neither a string nor a
                whole number.
            TooLarge: the key is longer than DynamoDB's limit for partition keys.
        """
        parts = self._parts(event, fingerprint)
        if (length := sum(map(len, parts))) > _MOST_CHARACTERS:
            raise TooLarge(
                f"the key has {length} characters; DynamoDB takes {Limits.PARTITION_KEY_BYTES} "
                "bytes"
            )
        key = "#".join([consumer, *map(_escape, parts)])
        if (size := len(key.encode())) > Limits.PARTITION_KEY_BYTES:
            raise TooLarge(f"the key has {size} bytes; DynamoDB takes {Limits.PARTITION_KEY_BYTES}")
        return key

    def item_values(self, event: CloudEvent) -> tuple[str, ...]:
        """Return the values of a field rule as an item's primary key, the partition key first.

        They are composed (NFC), as in the dedup key, so that both spellings of one text are one
        item.

        Raises:
            NoKey: a value is not a text, as the keys of tables are.
            TooLarge: the second one is longer than DynamoDB's limit for sort keys.
        """
        values = tuple(_text(value_at(event.data, path), path) for path in self.fields)
        for value in values[1:]:
            if (size := len(value.encode())) > _SORT_KEY_BYTES:
                raise TooLarge(
                    f"the item's sort key has {size} bytes; DynamoDB takes {_SORT_KEY_BYTES}"
                )
        return values

    def _parts(self, event: CloudEvent, fingerprint: str) -> tuple[str, ...]:
        match self.rule:
            case "field":
                return self.rule, event.type, *_field_parts(event, self.names)
            case "attribute":
                [name] = self.names
                attributes = {"subject": event.subject, **event.extensions}
                return self.rule, event.source, name, _scalar(attributes.get(name), name)
            case "content":
                return self.rule, event.source, fingerprint
        return self.rule, event.source, event.id


def field_values(pk: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the event type and the texts in a dedup key of a field rule.

    None for a key of another rule, or with a value that is no text.
    """
    match [_unescape(part) for part in pk.split("#")[1:]]:
        case ["field", event_type, *parts] if parts and len(parts) % 2 == 0:
            values = parts[1::2]
            if all(value.startswith("str:") for value in values):
                return event_type, tuple(value.removeprefix("str:") for value in values)
    return None


def consumer_of(pk: str) -> str:
    """Return the consumer whose dedup record has this partition key."""
    return pk.partition("#")[0]


def key_hash(pk: str) -> str:
    """Return the SHA-256 of a key in hex. It replaces the key in logs and metrics."""
    return sha256(pk.encode()).hexdigest()


def value_at(data: Any, path: str) -> Any:
    """Return the value of a field, with dots for nesting; None if it is missing."""
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _field_parts(event: CloudEvent, paths: tuple[str, ...]) -> list[str]:
    return [part for path in paths for part in (path, _scalar(value_at(event.data, path), path))]


def _scalar(value: Any, name: str) -> str:
    """Return a value with its type, since the number 1 and the text "1" are two identities."""
    match value:
        case bool():
            pass
        case int():
            return f"int:{value}"
        case str() if value.strip():
            return f"str:{value}"
    raise NoKey(f"{name} is the event's key: it must be a non-blank string or a whole number")


def _text(value: Any, name: str) -> str:
    if not (isinstance(value, str) and value.strip()):
        raise NoKey(f"{name} is the key of the item that holds the dedup record: it must be a text")
    return unicodedata.normalize("NFC", value)


def _escape(part: str) -> str:
    return unicodedata.normalize("NFC", part).replace("%", "%25").replace("#", "%23")


def _unescape(part: str) -> str:
    return part.replace("%23", "#").replace("%25", "%")
