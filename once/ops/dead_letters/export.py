"""Export: dead letters as lines of JSON in a file, complete for putting them back.

`dlq purge` writes such a file, and `dlq import` reads it.
"""

import base64
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct, ValidationError
from msgspec.json import decode

from once.errors import UNREADABLE
from once.events.cloud_event import CloudEvent
from once.failures.quarantine import Place, fits, size_of, text
from once.ops.dead_letters.assessment import event_of
from once.ops.dead_letters.letter import Letter
from once.ops.dead_letters.letter_text import letter_json
from once.ops.dedup_records import MESSAGE_LIFETIME_SECONDS
from once.ops.errors import OpsError, unexpected_error_text
from once.ops.terminal.timestamps import event_time
from once.schema import DeadLetter, Limits

FOLDER = Path("once-exports")
"""Exports hold customers' data: the folder is its owner's, and git ignores it."""

_PARTS = ("DataType", "StringValue", "BinaryValue")


class _Attribute(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message attribute of SendMessage, with bytes in Base64."""

    DataType: str
    StringValue: str | None = None
    BinaryValue: bytes | None = None

    def __post_init__(self) -> None:
        if (self.StringValue is None) is (self.BinaryValue is None):
            raise ValueError("an attribute has one value, a text or bytes")

    def value(self) -> dict[str, Any]:
        """Return the attribute as boto3 takes it."""
        return {part: value for part in _PARTS if (value := getattr(self, part)) is not None}


class _Send(Struct, frozen=True):
    """The arguments of SendMessage."""

    MessageBody: str
    MessageAttributes: dict[str, _Attribute]
    MessageGroupId: str | None = None
    MessageDeduplicationId: str | None = None


class ExportedLetter(Struct, frozen=True):
    """A line of an export.

    Attributes:
        consumer: the owner of its dead-letter queue.
        message_id: its id before it was exported.
        safe_until: see `safe_until`; None if that is not known.
        send: the message.
    """

    consumer: str
    message_id: str
    safe_until: datetime | None
    send: _Send

    @property
    def digest(self) -> str:
        """SHA-256 over body and attributes: identifies the letter, whatever its message id."""
        return _digest(self.send.MessageBody, self._attributes())

    @property
    def message_group(self) -> str | None:
        """The message group in its consumer's queue, if it has one."""
        reason, noted = map(self.send.MessageAttributes.get, (DeadLetter.REASON, DeadLetter.GROUP))
        place = Place.read(noted.StringValue or "") if reason and noted else None
        return place.group if place else self.send.MessageGroupId

    @property
    def size(self) -> int:
        """Size in bytes, as SQS counts it."""
        return size_of(self.send.MessageBody, self._attributes())

    def is_past(self, now: datetime) -> bool:
        """Tell whether its `safe_until` is over, or not known."""
        return self.safe_until is None or now >= self.safe_until

    def entry(self) -> dict[str, Any]:
        """Return the letter as an entry of SendMessageBatch, without its id."""
        entry = {"MessageBody": self.send.MessageBody, "MessageAttributes": self._attributes()}
        if self.send.MessageGroupId is not None:
            entry["MessageGroupId"] = self.send.MessageGroupId
        if self.send.MessageDeduplicationId is not None:
            # Under the exported id, SQS would accept a second import and drop its letters.
            entry["MessageDeduplicationId"] = uuid4().hex
        return entry

    def _attributes(self) -> dict[str, Any]:
        return {name: one.value() for name, one in self.send.MessageAttributes.items()}


def export_files(letters: Sequence[Letter], now: datetime) -> Mapping[Path, Sequence[Letter]]:
    """Return a new file for the letters of each consumer, in `FOLDER`.

    Raises:
        OpsError: the folder cannot be made.
    """
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n")
    except OSError as error:
        raise _not_written(error) from None
    owners = dict.fromkeys(letter.queue.owner for letter in letters)
    return {
        FOLDER / f"dlq-{owner}-{now:%Y%m%dT%H%M%SZ}.jsonl": [
            letter for letter in letters if letter.queue.owner == owner
        ]
        for owner in owners
    }


def export(path: Path, letters: Iterable[Letter]) -> dict[str, str]:
    """Write letters to a new file, a line each, and flush it to the disk.

    Returns:
        The reason for each letter that is not in the file, by message id.

    Raises:
        OpsError: the file exists already, or cannot be written.
    """
    lines: list[str] = []
    faults: dict[str, str] = {}
    for letter in letters:
        try:
            lines.append(exported_line(letter) + "\n")
        except OpsError as error:
            faults[letter.message_id] = str(error)
        except Exception as error:  # one letter must not stop the export
            faults[letter.message_id] = unexpected_error_text(error)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        _flush_folder(path.parent)
    except OSError as error:
        raise _not_written(error) from None
    return faults


def read_export(file: Path) -> list[ExportedLetter]:
    """Read the letters of an export.

    Raises:
        OpsError: the file or one of its lines cannot be read.
    """
    letters = []
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise OpsError(f"{error}: nothing was imported") from None
    for number, line in enumerate(lines, start=1):
        try:
            letters.append(read_line(line))
        except ValueError as error:
            raise OpsError(f"line {number} of {file}: {error}; nothing was imported") from None
    return letters


def exported_line(letter: Letter) -> str:
    """Return a letter as a line of JSON; its `send` is the input of SendMessage.

    Raises:
        OpsError: the letter cannot be put back as it is.
    """
    until, attributes = safe_until(letter), _kept_attributes(letter)
    line = {
        **letter_json(letter),
        "error": letter.error,
        "safe_until": until and until.isoformat(),
        "send": {
            "QueueUrl": letter.queue.url,
            "MessageBody": letter.received["Body"],
            "MessageAttributes": {
                name: {part: _text(content) for part, content in value.items()}
                for name, value in attributes.items()
            },
            **_order(letter),
        },
    }
    return json.dumps(line)


def read_line(line: bytes) -> ExportedLetter:
    """Read a line of an export.

    Raises:
        ValueError: the line is not one of an export; the text does not quote it.
    """
    try:
        return decode(line, type=ExportedLetter)
    except ValidationError as error:
        raise ValueError(f"it is no exported letter ({error})") from None
    except UNREADABLE:
        raise ValueError("it is not JSON, or nested too deeply") from None


def letter_digest(letter: Letter) -> str:
    """Return the digest that this letter would have in an export."""
    return _digest(letter.received["Body"], _kept_attributes(letter))


def safe_until(letter: Letter) -> datetime | None:
    """Return until when a redrive of the letter is deduplicated if its event was committed.

    The dedup record of an event outlives every message that was made or first seen less than
    `MESSAGE_LIFETIME_SECONDS` ago. None if the producer's time cannot be read.
    """
    moment, event = letter.first_seen, event_of(letter)
    if isinstance(event, CloudEvent) and event.time:
        sent = event_time(event)
        if sent is None:
            return None
        moment = min(moment, sent)
    try:
        return (moment + timedelta(seconds=MESSAGE_LIFETIME_SECONDS)).astimezone(UTC)
    except OverflowError:
        return None


def _kept_attributes(letter: Letter) -> dict[str, Any]:
    """Return the attributes as they are; with the time of its first receive if they lack it.

    SQS keeps that time of a letter that it moved by itself, and forgets it with the message. Of
    such a letter, a reason among the attributes is its producer's, and would count as its reason.

    Raises:
        OpsError: with that time, the letter exceeds a limit of SQS.
    """
    raw = letter.received.get("MessageAttributes", {})
    own: dict[str, Any] = {
        name: {part: value for part, value in one.items() if part in _PARTS}
        for name, one in raw.items()
    }
    if letter.moved:
        own.pop(DeadLetter.REASON, None)
    known = letter.attributes.first_seen
    if known is not None and known <= letter.first_seen:
        return own
    first_seen = text(letter.first_seen.isoformat(timespec="milliseconds"))
    reserved = {name: value for name, value in own.items() if name.startswith("once-")}
    for attributes in (own, {**reserved, **letter.original.plain()}):
        kept = {**attributes, DeadLetter.FIRST_SEEN: first_seen}
        if len(kept) <= Limits.MESSAGE_ATTRIBUTES and fits(letter.received["Body"], kept):
            return kept
    raise OpsError("with the time of its first receive it would exceed a limit of SQS")


def _order(letter: Letter) -> dict[str, str]:
    group = letter.received["Attributes"].get("MessageGroupId")
    if group is None:
        return {}
    if not letter.queue.is_fifo:
        return {"MessageGroupId": group}
    return {
        "MessageGroupId": group,
        "MessageDeduplicationId": sha256(letter.message_id.encode()).hexdigest(),
    }


def _digest(body: str, attributes: Mapping[str, Any]) -> str:
    parts = {name: {k: _text(v) for k, v in one.items()} for name, one in attributes.items()}
    return sha256(json.dumps([body, parts], sort_keys=True).encode()).hexdigest()


def _text(part: str | bytes) -> str:
    return base64.b64encode(part).decode() if isinstance(part, bytes) else part


def _flush_folder(folder: Path) -> None:
    """Flush the folder, which holds the file's name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_written(error: OSError) -> OpsError:
    return OpsError(f"{error}: nothing was deleted; name another file with --export")
