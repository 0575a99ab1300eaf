"""Samples of messages: read, and varied."""

import json
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from redelivery.subject import Subject, SubjectError
from redelivery.variants import Path, leaves, value_at, with_another_key, with_other_content

POISON = "{ this is not JSON"
NEIGHBOUR = json.dumps({"redelivery": "a message without the fields of its neighbours"})


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
        label: its name in reports.
        body: its body.
        attributes: message attributes as SQS's `SendMessage` takes them.
        group: the message group, on a FIFO queue.
    """

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
    """

    first: Message
    second: Message | None
    other: Message | None


def samples(subject: Subject) -> Samples:
    """Return the messages of a subject.

    Raises:
        SubjectError: there is no sample, or one cannot be read.
    """
    read = [message for event in subject.events for message in _read(event)]
    if not read:
        raise SubjectError("no sample of a message: give a file with --event events/order.json")
    first = replace(read[0], label="m1")
    key = subject.key or _inferred_key(subject, first)
    body = _json(first.body)
    path = _path(key, body) if key else None
    if path is not None:
        first = replace(first, group=str(value_at(body, path)))
    if len(read) > 1:
        second: Message | None = replace(read[1], label="m2", group=_group(read[1], path))
    else:
        second = None if path is None else _second(first, path)
    other = _other(first, path) if subject.key and path is not None else None
    return Samples(first, second, other)


def _second(first: Message, path: Path) -> Message:
    body = with_another_key(_json(first.body), path)
    return replace(first, label="m2", body=json.dumps(body), group=str(value_at(body, path)))


def _other(first: Message, path: Path) -> Message | None:
    body = with_other_content(_json(first.body), path)
    return body and replace(first, label="m1 with other content", body=json.dumps(body))


def _group(message: Message, path: Path | None) -> str:
    try:
        return message.group if path is None else str(value_at(_json(message.body), path))
    except (KeyError, IndexError, TypeError) as error:
        raise SubjectError(f"the second sample has no key: {error}") from error


def _read(event: Any) -> Iterator[Message]:
    if isinstance(event, pathlib.Path):
        try:
            text = event.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SubjectError(f"cannot read the sample {event}: {error}") from error
        event = _json(text)
        if not _is_sqs_event(event):
            yield Message("", text.strip())
            return
    if _is_sqs_event(event):
        yield from map(_of_record, event["Records"])
    else:
        yield Message("", event if isinstance(event, str) else json.dumps(event))


def _is_sqs_event(event: Any) -> bool:
    records = event.get("Records") if isinstance(event, dict) else None
    return bool(records) and isinstance(records, list) and "body" in records[0]


def _of_record(record: Mapping[str, Any]) -> Message:
    attributes = {
        name: {key[0].upper() + key[1:]: entry for key, entry in value.items() if "List" not in key}
        for name, value in record.get("messageAttributes", {}).items()
    }
    return Message("", str(record["body"]), attributes)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _inferred_key(subject: Subject, message: Message) -> str:
    """Return the partition key of a compared table that is a field of the body."""
    body = _json(message.body)
    names = [table.key.partition(":")[0] for table in subject.tables if table.is_state]
    paths = {path[-1]: path for path, _ in leaves(body)}
    found = next((paths[name] for name in names if name in paths), ())
    return ".".join(map(str, found))


def _path(key: str, body: Any) -> Path:
    for path, _ in leaves(body):
        if ".".join(map(str, path)) == key:
            return path
    known = ", ".join(".".join(map(str, path)) for path, _ in leaves(body))
    raise SubjectError(
        f"the sample has no field {key}, its key. Its fields are: {known or 'none, it is not JSON'}"
    )
