"""Samples of messages: read, and varied into a message with another key or other content."""

import copy
import datetime as dt
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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

POLICIES = ("first", "last", "error")
"""Policies for other content under one key: it is ignored, replaces the first, or is an error."""

_LEAST_KEY_LENGTH = 3
_VERSION = re.compile(r"version|revision|sequence|updated|modified|occurred|time", re.IGNORECASE)
_MOST_VARIATIONS = 16
_AN_ID = re.compile(
    r"(^|_|-)(id|key|uuid|number|no|nr|ref|reference|code|name|email)$|I[dD]$|Key$|Number$"
)
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
    """One message: its name in reports, and what SQS's `SendMessage` takes.

    A FIFO queue needs the message's group. On another queue it is the one of the sample, if any.
    """

    label: str
    body: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True, slots=True)
class Samples:
    """The messages of a scenario.

    Attributes:
        first: the message that faults meet.
        second: another message; None without one.
        other: the key of `first` with other content; None if no key is declared.
        sibling: `first` with another key, and otherwise the same; None without one.
    """

    first: Message
    second: Message | None = None
    other: Message | None = None
    sibling: Message | None = None


def messages(subject: Subject) -> list[Message]:
    """Return the distinct samples of a subject, labelled `m1`, `m2`, ….

    Raises:
        SubjectError: there is no sample, one cannot be read, or the first has not the declared key.
    """
    read = {each.body: each for event in subject.events for each in _read(event)}
    if not read:
        raise SubjectError("no sample of a message: give a file with --event events/order.json")
    found = []
    for number, message in enumerate(read.values(), 1):
        ways = _by_name(opened(message.body))
        if number == 1 and subject.key and subject.key not in ways:
            known = ", ".join(ways) or "none, it is not JSON"
            told = f"the sample has no field {subject.key}, its key. Its fields are: {known}"
            raise SubjectError(told)
        by_key = str(ways[subject.key][1]) if subject.fifo and subject.key in ways else ""
        found.append(replace(message, label=f"m{number}", group=message.group or by_key))
    return found


def variations(subject: Subject, message: Message) -> Iterator[tuple[str, Message]]:
    """Yield messages that may be another event, each with the fields in which it differs.

    The declared key alone comes first; without one, each field that may be a key: partition keys of
    tables, then names such as `order_id`, all of them at once, and then the other fields.
    """
    body = opened(message.body)
    ways = _by_name(body)
    if not ways:
        group = "other" if subject.fifo else message.group
        yield "the body", replace(message, body=_another(message.body), group=group)
        return
    keys = {table.key.partition(":")[0] for table in subject.tables}
    named = {
        name: way
        for name, (way, value) in ways.items()
        if value is not None and not isinstance(value, bool)
    }
    likely = [n for n, way in named.items() if way[-1] in keys]
    likely += [n for n, way in named.items() if _AN_ID.search(str(way[-1])) and n not in likely]
    each = [[name] for name in likely]
    others = [[name] for name in named if name not in likely]
    choices = [*each, *[likely] * (len(likely) > 1), *others]
    if subject.key in ways:
        more = [name for name in likely if name != subject.key]
        together = [[subject.key, *more]] * (len(more) > 1)
        choices = [[subject.key], *([subject.key, name] for name in more), *together]
    for names in choices[:_MOST_VARIATIONS]:
        changed = _with_another_key(body, [ways[name][0] for name in names])
        group = str(_value_at(changed, ways[names[0]][0])) if subject.fifo else message.group
        yield ", ".join(names), replace(message, body=closed(changed, text=True), group=group)


def other_content(subject: Subject, message: Message) -> Message | None:
    """Return a message with the declared key and other content, a later version; None without.

    Raises:
        SubjectError: the subject's policy is none.
    """
    if subject.other_content not in {"", *POLICIES}:
        raise SubjectError(f"other_content is {subject.other_content}; there are {POLICIES}")
    body = opened(message.body)
    found = _by_name(body).get(subject.key)
    changed = _with_other_content(body, found[0]) if found else None
    if changed is None:
        return None
    return replace(message, label="m1 with other content", body=closed(changed, text=True))


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
            group = record.get("attributes", {}).get("MessageGroupId", "")
            yield Message("", str(record["body"]), attributes, str(group))
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


def _by_name(body: Any) -> dict[str, tuple[Way, Any]]:
    """Return the way to each value of a body and the value, by its name `a.b.c`."""
    return {".".join(map(str, way)): (way, value) for way, value in _leaves(body)}


def _with_another_key(body: Any, ways: Sequence[Way]) -> Any:
    """Return a copy of a body with other keys, also where other fields contain them."""
    changes: dict[Way, Any] = {}
    for way in ways:
        old = _value_at(body, way)
        new = _another(old)
        if isinstance(old, str) and len(old) >= _LEAST_KEY_LENGTH:
            texts = ((place, value) for place, value in _leaves(body) if isinstance(value, str))
            changes |= {
                place: value.replace(old, new)
                for place, value in texts
                if place not in changes and old in value
            }
        changes[way] = new
    if "specversion" in body and ("id",) not in changes:
        changes["id",] = _another(body.get("id"))  # two CloudEvents never have the same id
    return _changed(body, changes)


def _with_other_content(body: Any, key: Way) -> Any:
    """Return a copy of a body in which one field other than the key differs; None without one."""
    others = [(way, value) for way, value in reversed([*_leaves(body)]) if way != key]
    numbers = [way for way, value in others if type(value) in {int, float}]
    texts = [way for way, value in others if isinstance(value, str) and way[-1] not in _ENVELOPE]
    chosen = [*numbers, *texts][:1]
    chosen += [way for way, _ in others if _VERSION.search(str(way[-1])) and chosen]
    changes = {way: _another(_value_at(body, way)) for way in chosen}
    return _changed(body, changes) if changes else None


def _changed(body: Any, changes: Mapping[Way, Any]) -> Any:
    changed = copy.deepcopy(body)
    for way, value in changes.items():
        _value_at(changed, way[:-1])[way[-1]] = value
    return changed


def _another(value: Any) -> Any:
    """Return another value of the same form; of a number or a time, a later one."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    with suppress(ValueError):
        return str(uuid.uuid5(uuid.UUID(value), "another"))
    with suppress(ValueError):
        later = dt.datetime.fromisoformat(value) + dt.timedelta(days=1)
        text = later.isoformat().replace("+00:00", "Z" if value.endswith("Z") else "+00:00")
        return text[: len(value)] if len(value) < len("2026-01-01T") else text
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
