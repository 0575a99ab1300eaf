"""Identity of an event: its key and its fingerprint, and the group in whose order it belongs.

An SQS MessageId or a time of receipt cannot be a key: both differ when the same event comes again.
The parts of a key are escaped and joined by `#`, so that two different events never share a key.

The fingerprint is the SHA-256 over the parts of an event that must not differ under one key. It is
taken of their canonical form, which is the same byte string for each spelling of a JSON value:
RFC 8785, over Unicode NFC.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from itertools import repeat
from typing import Any

import msgspec
from msgspec import Struct

from once.errors import NoKey, TooLarge, Unparseable
from once.events.cloud_event import CloudEvent
from once.events.strict_json import MAX_SAFE_INTEGER, Number, whole_number
from once.names import COMMAND, Limits
from once.runtime.deadline import Deadline

RULES = ("event", "field", "attribute", "content")
"""Names of the key rules; the second part of a dedup key."""

_SORT_KEY_BYTES = 1024
"""DynamoDB's limit for the value of a sort key."""

# Composed (NFC), a text has at least half as many bytes as it had characters before.
_MAX_CHARACTERS = 2 * Limits.PARTITION_KEY_BYTES

_GROUP_ID = re.compile(r"[!-~]{1,128}")
"""Group ids that SNS and SQS accept: letters, digits and punctuation of ASCII, without spaces."""

_SORTED = msgspec.json.Encoder(order="sorted", enc_hook=float)  # of a Number
_BEYOND_U_FFFF = re.compile(rb"[\xf0-\xf4]")
_CONTAINERS, _FRACTIONS, _SAME = (dict, list), (float, Number), (str, bool, type(None))
_SMALLEST_PLAIN = 1e-4
_STEPS = 1024
"""Values that are written between two looks at the clock."""


class Key(Struct, frozen=True):
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
        match _parts_of(pk):
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
        # First by characters: to compose a long text takes time.
        if (length := sum(map(len, parts))) > _MAX_CHARACTERS:
            raise TooLarge(
                f"the key has {length} characters; DynamoDB takes {Limits.PARTITION_KEY_BYTES} "
                "bytes"
            )
        escaped = map(_escaped, map(_composed, parts))
        key = "#".join([consumer, *escaped])
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
        values = []
        for path in self.fields:
            value = value_at(event.data, path)
            if not (isinstance(value, str) and value.strip()):
                raise NoKey(
                    f"{path} is the key of the item that holds the dedup record: it must be a text"
                )
            values.append(_composed(value))
        # The first value is in the dedup key, which has the limit of partition keys.
        for value in values[1:]:
            if (size := len(value.encode())) > _SORT_KEY_BYTES:
                raise TooLarge(
                    f"the item's sort key has {size} bytes; DynamoDB takes {_SORT_KEY_BYTES}"
                )
        return tuple(values)

    def _parts(self, event: CloudEvent, fingerprint: str) -> tuple[str, ...]:
        match self.rule:
            case "field":
                # With the type: one order has an event of each type under its number.
                values = ((path, _scalar(value_at(event.data, path), path)) for path in self.names)
                return self.rule, event.type, *(part for pair in values for part in pair)
            case "attribute":
                # With the source: a producer's ids are unique within it.
                [name] = self.names
                attributes = {"subject": event.subject, **event.extensions}
                return self.rule, event.source, name, _scalar(attributes.get(name), name)
            case "content":
                return self.rule, event.source, fingerprint
        return self.rule, event.source, event.id


def command_key(consumer: str, *, scope: str, command: str, key: str) -> str:
    """Return the partition key of a command's dedup record.

    The key of the caller is neither composed nor cut: two keys are never the same command. The
    scope is hashed, since events name the key of their record, and it may be a person.

    Raises:
        UnicodeEncodeError: scope or key has a lone surrogate.
    """
    key.encode()
    parts = (COMMAND, sha256(scope.encode()).hexdigest(), command, key)
    return "#".join([consumer, *map(_escaped, parts)])


def _escaped(part: str) -> str:
    # "%" first: otherwise the escape of "#" would be escaped again.
    return part.replace("%", "%25").replace("#", "%23")


def _scalar(value: Any, name: str) -> str:
    """Return a value with its type, since the number 1 and the text "1" are two identities."""
    if (number := whole_number(value)) is not None:
        return f"int:{number}"
    if isinstance(value, str) and value.strip():
        return f"str:{value}"
    raise NoKey(f"{name} is the event's key: it must be a non-blank string or a whole number")


def _parts_of(pk: str) -> list[str]:
    """Return the parts of a dedup key after the consumer's name."""
    return [part.replace("%23", "#").replace("%25", "%") for part in pk.split("#")[1:]]


def field_values(pk: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the event type and the texts in a dedup key of a field rule.

    None for a key of another rule, or with a value that is no text.
    """
    match _parts_of(pk):
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


def commit_prefix(pk: str) -> str:
    """Return the beginning of the id of each commit of a key: an item tells whose commit it has."""
    return key_hash(pk)[:16]


def value_at(data: Any, path: str) -> Any:
    """Return the value of a field, with dots for nesting; None if it is missing."""
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return data


def message_group(data: Any, path: str) -> str | None:
    """Return the message group id that a field of the data gives; None if it has no value for one.

    A group id is non-blank text or a whole number. Text that SNS does not accept as a
    `MessageGroupId` is replaced by its SHA-256 in hex, so that equal values have equal groups. The
    number 1 and the text "1" are one group: a group may only be larger than it needs to be.
    """
    value = value_at(data, path)
    if (number := whole_number(value)) is not None:
        group = str(number)
    elif isinstance(value, str) and value.strip():
        group = _composed(value)
    else:
        return None
    if _GROUP_ID.fullmatch(group):
        return group
    return sha256(group.encode(errors="surrogatepass")).hexdigest()


def key_and_fingerprint(
    event: CloudEvent,
    key: Key,
    *,
    consumer: str,
    volatile: Collection[str] = (),
    deadline: Deadline | None = None,
) -> tuple[str, str, str]:
    """Return the partition key of an event's dedup record, its hash, and the event's fingerprint.

    Raises:
        NoKey, TooLarge: see `Key.of`.
        Unparseable, OutOfTime: see `canonical`.
    """
    content = fingerprint(event, volatile=volatile, deadline=deadline)
    pk = key.of(event, fingerprint=content, consumer=consumer)
    return pk, key_hash(pk), content


def fingerprint(
    event: CloudEvent, *, volatile: Collection[str] = (), deadline: Deadline | None = None
) -> str:
    """Return the SHA-256, in hexadecimal, of the event's type, subject and data.

    `time` and the extension attributes are left out, since a producer may change them on a retry.
    So are `volatile` top-level fields of the data, which may differ between two deliveries.

    Raises:
        Unparseable, OutOfTime: see `canonical`.
    """
    data = without(event.data, volatile)
    return digest({"type": event.type, "subject": event.subject, "data": data}, deadline=deadline)


def without(data: Any, names: Collection[str]) -> Any:
    """Return data without these top-level fields."""
    if names and isinstance(data, dict):
        return {name: value for name, value in data.items() if name not in names}
    return data


def canonical(value: Any, *, deadline: Deadline | None = None) -> bytes:
    """Return the canonical form of a JSON value.

    RFC 8785 does not normalise Unicode: "é" as one code point or as two would give one event two
    forms. Strings are therefore composed (NFC) first. Handlers still receive the original strings.

    Raises:
        Unparseable: two keys of one object become the same key when composed.
        OutOfTime: the deadline passed before the form of a large value was complete.
    """
    # The fast way, for most events. msgspec sorts keys by code points and RFC 8785 by UTF-16: the
    # orders differ beyond U+FFFF only, and ASCII is composed already.
    if has_plain_numbers([value]):
        form = _SORTED.encode(value)
        if form.isascii():
            return form
        if not _BEYOND_U_FFFF.search(form) and unicodedata.is_normalized("NFC", form.decode()):
            return form
    written = bytearray()
    step = repeat(None) if deadline is None else deadline.steps(_STEPS)
    _write(value, written, step)
    return bytes(written)


def digest(value: Any, *, deadline: Deadline | None = None) -> str:
    """Return the SHA-256 of the canonical form, as 64 hexadecimal digits."""
    return sha256(canonical(value, deadline=deadline)).hexdigest()


def has_plain_numbers(values: Iterable[Any]) -> bool:
    """Return whether msgspec, `json.dumps` and RFC 8785 write the numbers in values alike.

    They do for whole numbers that a double holds, and for fractions that need no exponent.
    """
    for value in values:
        kind = type(value)
        if kind in _CONTAINERS:
            if not has_plain_numbers(value.values() if kind is dict else value):
                return False
        elif kind is int:
            if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
                return False
        elif kind in _FRACTIONS:
            if not _SMALLEST_PLAIN <= abs(value) < MAX_SAFE_INTEGER or value.is_integer():
                return False
        elif kind not in _SAME:
            return False
    return True


def _write(value: Any, written: bytearray, step: Iterator[None]) -> None:
    """Append the form of a value to `written`.

    It has the keys in the order of RFC 8785, which sorts them as UTF-16, and its numbers.
    """
    next(step)
    kind = type(value)
    if kind is dict:
        members = {_composed(name): member for name, member in value.items()}
        if len(members) != len(value):
            raise Unparseable("an object has two keys that differ only in their Unicode form")
        separator = b"{"
        for name in sorted(members, key=lambda name: name.encode("utf-16-be")):
            written += separator + _SORTED.encode(name) + b":"
            _write(members[name], written, step)
            separator = b","
        written += b"}" if members else b"{}"
    elif kind is list:
        separator = b"["
        for member in value:
            written += separator
            _write(member, written, step)
            separator = b","
        written += b"]" if value else b"[]"
    elif kind in _SAME:
        written += _SORTED.encode(_composed(value) if kind is str else value)
    else:
        # Imported late: few functions ever need it.
        import rfc8785

        written += rfc8785.dumps(value)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
