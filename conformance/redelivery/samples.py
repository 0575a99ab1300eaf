"""Samples of messages: read, and varied into a message with another key or other content."""

import copy
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redelivery.subject import Subject, SubjectError

POISON = {
    "": "{ this is not JSON",
    "list": "[]",
    "null": "null",
    "number": "1" + 4999 * "0",
    "text": '"text"',
    "nested": 3000 * "[" + 3000 * "]",
}
"""Bodies that are no JSON object, by the variant of a scenario. Python refuses so long a number,
and so deep a list with a RecursionError."""

NEIGHBOUR = json.dumps({"redelivery": "a message without the fields of its neighbours"})

_LEAST_KEY_LENGTH = 3
_ENVELOPE = {
    *("id", "type", "source", "specversion", "version"),
    *("time", "timestamp", "datacontenttype"),
}


class JsonText(dict[str, Any]):
    """An object that is text in the body: the `Message` of a notification by SNS."""


Way = tuple[str | int, ...]
"""The way to a value in a body: names and indexes."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its name in reports, and what SQS's `SendMessage` takes."""

    label: str
    body: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    group: str = "group"


@dataclass(frozen=True, slots=True)
class Samples:
    """The messages of a check.

    Attributes:
        first, second: distinct messages; `second` is None with one sample and without a key.
        other: the key of `first` with other content; None if no key is declared.
        sibling: `first` with another key, and otherwise the same; None without a key.
    """

    first: Message
    second: Message | None
    other: Message | None = None
    sibling: Message | None = None


def samples(subject: Subject) -> Samples:
    """Return the messages of a subject.

    Raises:
        SubjectError: there is no sample, or one cannot be read.
    """
    read = [message for event in subject.events for message in _read(event)]
    if not read:
        raise SubjectError("no sample of a message: give a file with --event events/order.json")
    first, body = replace(read[0], label="m1"), opened(read[0].body)
    way = _way_to_the_key(subject, body)
    second = replace(read[1], label="m2") if len(read) > 1 else None
    if way is None:
        return Samples(first, second)
    first = replace(first, group=str(_value_at(body, way)))
    new = _with_another_key(body, way)
    group = str(_value_at(new, way))
    sibling = replace(first, label="m2", body=closed(new, text=True), group=group)
    if second is not None:
        try:
            second = replace(second, group=str(_value_at(opened(second.body), way)))
        except (KeyError, IndexError, TypeError) as error:
            raise SubjectError(f"the second sample has no key: {error}") from error
    changed = _with_other_content(body, way) if subject.key else None
    other = None
    if changed is not None:
        text = closed(changed, text=True)
        other = replace(first, label="m1 with other content", body=text)
    return Samples(first, second or sibling, other, sibling)


def _read(event: Any) -> Iterator[Message]:
    text = ""
    if isinstance(event, Path):
        try:
            text = event.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SubjectError(f"cannot read the sample {event}: {error}") from error
        try:
            event = json.loads(text)
        except ValueError as error:
            if text.startswith(("{", "[")) or event.suffix == ".json":
                raise SubjectError(f"the sample {event} is not JSON: {error}") from error
            event = None
    records = event.get("Records") if isinstance(event, dict) else None
    if records and isinstance(records, list) and "body" in records[0]:
        for record in records:
            attributes = {
                name: {k[0].upper() + k[1:]: v for k, v in value.items() if "List" not in k}
                for name, value in record.get("messageAttributes", {}).items()
            }
            yield Message("", str(record["body"]), attributes)
    elif text:
        yield Message("", text)
    else:
        yield Message("", event if isinstance(event, str) else json.dumps(event))


def opened(text: str) -> Any:
    """Return a body as Python values; None if it is not JSON."""
    try:
        return _opened(json.loads(text))
    except ValueError:
        return None


def _opened(value: Any) -> Any:
    """Return a value in which text that holds a JSON object is a `JsonText`."""
    if isinstance(value, dict):
        return {name: _opened(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_opened(entry) for entry in value]
    if isinstance(value, str) and value.startswith("{"):
        inside = opened(value)
        return JsonText(inside) if isinstance(inside, dict) else value
    return value


def closed(value: Any, *, text: bool = False) -> Any:
    """Return what `opened` has opened, with `text` as a body."""
    plain = value
    if isinstance(value, dict):
        plain = {name: closed(entry) for name, entry in value.items()}
    elif isinstance(value, list):
        plain = [closed(entry) for entry in value]
    return json.dumps(plain) if text or isinstance(value, JsonText) else plain


def _way_to_the_key(subject: Subject, body: Any) -> Way | None:
    """Return the way to the declared key, or to the partition key of a compared table."""
    ways = [way for way, _ in _leaves(body)]
    if not subject.key:
        names = [table.key.partition(":")[0] for table in subject.tables if table.is_state]
        inferred = {way[-1]: way for way in ways}
        return next((inferred[name] for name in names if name in inferred), None)
    named = {".".join(map(str, way)): way for way in reversed(ways)}
    if subject.key in named:
        return named[subject.key]
    known = ", ".join(reversed(named)) or "none, it is not JSON"
    raise SubjectError(f"the sample has no field {subject.key}, its key. Its fields are: {known}")


def _with_another_key(body: Any, way: Way) -> Any:
    """Return a copy of a body with another key, also where other fields contain it."""
    old = _value_at(body, way)
    new, changes = _another(old), {}
    if isinstance(old, str) and len(old) >= _LEAST_KEY_LENGTH:
        texts = ((place, value) for place, value in _leaves(body) if isinstance(value, str))
        changes = {place: value.replace(old, new) for place, value in texts}
    changes[way] = new
    if "specversion" in body and changes.get(("id",), body.get("id")) == body.get("id"):
        changes["id",] = _another(body.get("id"))  # two CloudEvents never have the same id
    return _changed(body, changes)


def _with_other_content(body: Any, key: Way) -> Any:
    """Return a copy of a body in which one field other than the key differs; None without one."""
    others = [(way, value) for way, value in reversed([*_leaves(body)]) if way != key]
    numbers = [way for way, value in others if type(value) in {int, float}]
    texts = [way for way, value in others if isinstance(value, str) and way[-1] not in _ENVELOPE]
    way = next(iter([*numbers, *texts]), None)
    return None if way is None else _changed(body, {way: _another(_value_at(body, way))})


def _changed(body: Any, changes: Mapping[Way, Any]) -> Any:
    changed = copy.deepcopy(body)
    for way, value in changes.items():
        _value_at(changed, way[:-1])[way[-1]] = value
    return changed


def _another(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    try:
        return str(uuid.uuid5(uuid.UUID(str(value)), "another"))
    except ValueError:
        return f"{value}-other"


def _leaves(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Yield every value of a body that is no object or list, with its way."""
    if isinstance(value, dict | list):
        for step, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(entry, (*way, step))
    elif way:
        yield way, value


def _value_at(body: Any, way: Way) -> Any:
    for step in way:
        body = body[step]
    return body
