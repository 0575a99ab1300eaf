"""Start keys: the dedup keys that a text of the command line may stand for.

They follow from the key rules, so that the table is never scanned: a key for each consumer and rule
that can hold the text.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from once.errors import NoKey, TooLarge
from once.events.cloud_event import CloudEvent
from once.events.dedup_key import Key
from once.events.outgoing import event_id_of
from once.ops.dedup_records.key_rules import KeyRules
from once.schema import SOURCE_PREFIX, source_of

_HASH = re.compile(r"[0-9a-f]{64}")
_OUTGOING_ID = re.compile(r"[0-9a-f]{64}\.\d{1,4}")
_INTEGER = re.compile(r"0|-?[1-9]\d{0,99}", re.ASCII)


def start_keys(
    text: str, rules: Iterable[KeyRules], *, publishers: Iterable[str], sources: Collection[str]
) -> list[str]:
    """Return the dedup keys that a text may stand for.

    Args:
        text: an event's id, the value of a key field, or the SHA-256 of a dedup key. The latter
            stands for the first event that its record published.
        rules: the key rules of the consumers whose records are looked up.
        publishers: the consumers whose events they may have taken.
        sources: the CloudEvents sources of events of producers.
    """
    value = event_id_of(text, 0) if _HASH.fullmatch(text) else text
    internal = [source_of(publisher) for publisher in publishers]
    found = (
        key
        for one in rules
        for event_type, rule in one.keys.items()
        for event in _events(
            rule, event_type, value, internal if event_type in one.events else sources
        )
        for key in _key(rule, event, one.consumer)
    )
    return list(dict.fromkeys(found))


def is_hash(text: str) -> bool:
    """Tell whether a text is a SHA-256 in hex."""
    return bool(_HASH.fullmatch(text))


def _events(
    rule: Key, event_type: str, text: str, sources: Collection[str]
) -> Iterator[CloudEvent]:
    """Yield events that have the text where the rule reads it."""
    match rule:
        case Key("event"):
            published = bool(_OUTGOING_ID.fullmatch(text))
            for source in sources:
                if published or not source.startswith(SOURCE_PREFIX):
                    yield CloudEvent(id=text, source=source, type=event_type)
        case Key("field", (path,)):
            for value in _values(text):
                yield CloudEvent(id="", source="", type=event_type, data=_nested(path, value))
        case Key("attribute", (name,)):
            for source in sources:
                for value in _values(text):
                    yield CloudEvent(
                        id="",
                        source=source,
                        type=event_type,
                        subject=text,
                        extensions={} if name == "subject" else {name: value},
                    )


def _values(text: str) -> Iterator[str | int]:
    yield text
    if _INTEGER.fullmatch(text):
        yield int(text)


def _nested(path: str, value: str | int) -> object:
    data: object = value
    for name in reversed(path.split(".")):
        data = {name: data}
    return data


def _key(rule: Key, event: CloudEvent, consumer: str) -> Iterator[str]:
    with suppress(NoKey, TooLarge):
        yield rule.of(event, fingerprint="", consumer=consumer)
