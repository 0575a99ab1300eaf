"""Export: dead letters as lines of JSON in a file, complete for putting them back.

A purge writes such a file and deletes the messages; an import puts them back. A journal beside the
file has the messages that were imported from it, so that an import can be repeated.
"""

import base64
import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from msgspec import Struct, ValidationError
from msgspec.json import decode

from once.errors import UNREADABLE
from once.events.cloud_event import CloudEvent
from once.failures.quarantine import Place, batches_by_size, fits, size_of, text
from once.intake.original_message import trace_header
from once.names import DeadLetterAttribute, Limits
from once.ops import dedup_records, operator_changes, terminal
from once.ops.aws.clients import BATCH_ENTRIES, call_for_each, client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import assessment, dead_letter_text, queue_walk
from once.ops.dead_letters.dead_letter import WAITS, DeadLetter, DeadLetterQueue, dead_letter_queues
from once.ops.errors import OpsError, unexpected_error_text

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

FOLDER = Path("once-exports")
"""Exports hold customers' data: the folder is its owner's, and git ignores it."""

_PARTS = ("DataType", "StringValue", "BinaryValue")
_STOLEN = "its hold ended before it was deleted, and another command may have changed it"


class _Attribute(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message attribute of SendMessage, with bytes in Base64."""

    DataType: str
    StringValue: str | None = None
    BinaryValue: bytes | None = None

    def __post_init__(self) -> None:
        if (self.StringValue is None) is (self.BinaryValue is None):
            raise ValueError("an attribute has one value, a text or bytes")


class _Send(Struct, frozen=True):
    """The arguments of SendMessage."""

    MessageBody: str
    MessageAttributes: dict[str, _Attribute]
    MessageGroupId: str | None = None
    MessageDeduplicationId: str | None = None
    MessageSystemAttributes: dict[str, _Attribute] = {}


class ExportedMessage(Struct, frozen=True):
    """A line of an export: the owner of its dead-letter queue, and its id before the export.

    `safe_until` is that of the function; None if it is not known.
    """

    consumer: str
    message_id: str
    safe_until: datetime | None
    send: _Send

    @property
    def digest(self) -> str:
        """SHA-256 over body and attributes: identifies the message, under any message id."""
        return _digest(self.send.MessageBody, self._attributes())

    @property
    def message_group(self) -> str | None:
        """The message group in its consumer's queue, if it has one."""
        reason, noted = map(
            self.send.MessageAttributes.get, (DeadLetterAttribute.REASON, DeadLetterAttribute.GROUP)
        )
        place = Place.read(noted.StringValue or "") if reason and noted else None
        return place.group if place else self.send.MessageGroupId

    @property
    def size(self) -> int:
        """Size in bytes, as SQS counts it."""
        return size_of(self.send.MessageBody, self._attributes())

    def entry(self) -> dict[str, Any]:
        """Return the message as an entry of SendMessageBatch, without its id."""
        entry = {"MessageBody": self.send.MessageBody, "MessageAttributes": self._attributes()}
        if system := _as_sent(self.send.MessageSystemAttributes):
            entry["MessageSystemAttributes"] = system
        if self.send.MessageGroupId is not None:
            entry["MessageGroupId"] = self.send.MessageGroupId
        if self.send.MessageDeduplicationId is not None:
            # Under the exported id, SQS would accept a second import and drop its messages.
            entry["MessageDeduplicationId"] = uuid4().hex
        return entry

    def _attributes(self) -> dict[str, Any]:
        return _as_sent(self.send.MessageAttributes)


def _as_sent(attributes: Mapping[str, _Attribute]) -> dict[str, Any]:
    """Return attributes as boto3 takes them."""
    return {
        name: {part: value for part in _PARTS if (value := getattr(one, part)) is not None}
        for name, one in attributes.items()
    }


def export(path: Path, messages: Iterable[DeadLetter]) -> dict[str, str]:
    """Write messages to a new file, a line each, and flush it to the disk.

    Returns the reason for each message that is not in the file, by message id.
    """
    lines: list[str] = []
    faults: dict[str, str] = {}
    for message in messages:
        try:
            lines.append(exported_line(message) + "\n")
        except OpsError as error:
            faults[message.message_id] = str(error)
        except Exception as error:  # one message must not stop the export
            faults[message.message_id] = unexpected_error_text(error)
    try:
        _append(path, lines, os.O_EXCL)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)  # the folder holds the file's name
        finally:
            os.close(handle)
    except OSError as error:
        raise _not_written(error) from None
    return faults


def _append(path: Path, lines: Iterable[str], flag: int = 0) -> None:
    """Append lines to a file that its owner alone can read, and flush it to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | flag, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def _not_written(error: OSError) -> OpsError:
    return OpsError(f"{error}: nothing was deleted; name another file with --export")


def read_export(file: Path) -> list[ExportedMessage]:
    messages = []
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise OpsError(f"{error}: nothing was imported") from None
    for number, line in enumerate(lines, start=1):
        try:
            messages.append(read_line(line))
        except ValueError as error:
            raise OpsError(f"line {number} of {file}: {error}; nothing was imported") from None
    return messages


def exported_line(message: DeadLetter) -> str:
    """Return a message as a line of JSON; its `send` is the input of SendMessage."""
    until, attributes = safe_until(message), _kept_attributes(message)
    order = {}
    if group := message.received["Attributes"].get("MessageGroupId"):
        order["MessageGroupId"] = group
        if message.queue.is_fifo:
            identity = sha256(message.message_id.encode()).hexdigest()
            order["MessageDeduplicationId"] = identity
    line = {
        **dead_letter_text.message_json(message),
        "error": message.error,
        "safe_until": until and until.isoformat(),
        "send": {
            "QueueUrl": message.queue.url,
            "MessageBody": message.received["Body"],
            "MessageAttributes": {
                name: {part: _text(content) for part, content in value.items()}
                for name, value in attributes.items()
            },
            **trace_header(message.received["Attributes"]),
            **order,
        },
    }
    return json.dumps(line)


def read_line(line: bytes) -> ExportedMessage:
    """Read a line of an export. The ValueError for another line does not quote it."""
    try:
        return decode(line, type=ExportedMessage)
    except ValidationError as error:
        raise ValueError(f"it is no exported dead letter ({error})") from None
    except UNREADABLE:
        raise ValueError("it is not JSON, or nested too deeply") from None


def safe_until(message: DeadLetter) -> datetime | None:
    """Return until when a redrive of the message is deduplicated if its event was committed.

    The dedup record of an event outlives every message that was made or first seen less than
    `MESSAGE_LIFETIME_SECONDS` ago. None if the producer's time cannot be read.
    """
    moment, event = message.first_seen, assessment.event_of(message)
    if isinstance(event, CloudEvent) and event.time:
        sent = terminal.parse_timestamp(event.time)
        if sent is None:
            return None
        moment = min(moment, sent)
    try:
        return (moment + timedelta(seconds=dedup_records.MESSAGE_LIFETIME_SECONDS)).astimezone(UTC)
    except OverflowError:
        return None


def _kept_attributes(message: DeadLetter) -> dict[str, Any]:
    """Return the attributes as they are; with the time of its first receive if they lack it.

    SQS keeps that time of a message that it moved by itself, and forgets it with the message. Of
    such a message, a reason among the attributes is its producer's, and would count as its reason.
    """
    raw = message.received.get("MessageAttributes", {})
    own: dict[str, Any] = {
        name: {part: value for part, value in one.items() if part in _PARTS}
        for name, one in raw.items()
    }
    if message.moved:
        own.pop(DeadLetterAttribute.REASON, None)
    noted = own.get(DeadLetterAttribute.FIRST_SEEN, {}).get("StringValue")
    if noted is not None and terminal.parse_timestamp(noted) == message.first_seen:
        return own
    first_seen = text(message.first_seen.isoformat(timespec="milliseconds"))
    reserved = {name: value for name, value in own.items() if name.startswith("once-")}
    for attributes in (own, {**reserved, **message.original.plain()}):
        kept = {**attributes, DeadLetterAttribute.FIRST_SEEN: first_seen}
        if len(kept) <= Limits.MESSAGE_ATTRIBUTES and fits(message.received["Body"], kept):
            return kept
    raise OpsError("with the time of its first receive it would exceed a limit of SQS")


def _digest(body: str, attributes: Mapping[str, Any]) -> str:
    parts = {name: {k: _text(v) for k, v in one.items()} for name, one in attributes.items()}
    return sha256(json.dumps([body, parts], sort_keys=True).encode()).hexdigest()


def _text(part: str | bytes) -> str:
    return base64.b64encode(part).decode() if isinstance(part, bytes) else part


@dataclass(slots=True)
class MessagePurge:
    """The export and deletion of messages that a walk holds.

    It has the reason for each message that could not be written, or was written and not deleted.
    """

    walk: queue_walk.QueueWalk
    messages: Sequence[DeadLetter]
    files: list[Path] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    not_exported: dict[str, str] = field(default_factory=dict)
    not_deleted: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        path: Path | None,
        change: operator_changes.Change,
        *,
        exported: Callable[[Path, Sequence[DeadLetter]], object],
        batch_deleted: Callable[[], object],
    ) -> None:
        """Export and delete the messages; count the deleted ones, also after an error.

        Args:
            path: the file of the export; None for a new file for each consumer.
            change: takes the ids and the numbers.
            exported: called with each file and the messages that it holds.
            batch_deleted: called after each batch; what it raises ends the deletion.

        Raises:
            OpsError: the messages were not held without a break, or a file cannot be written;
                nothing was deleted.
        """
        try:
            self.walk.raise_if_lapsed()
            for file, some in ({path: self.messages} if path else self._new_files()).items():
                faults = export(file, some)
                self.files.append(file)
                self.not_exported |= faults
                exported(file, [message for message in some if message.message_id not in faults])
            # Every file is on the disk by now: after a crash from here on, a message is in its
            # file, and perhaps in its queue as well.
            written = [one for one in self.messages if one.message_id not in self.not_exported]
            for batch in queue_walk.batches_by_queue(written):
                self._delete(batch)
                batch_deleted()
        finally:
            change.message_ids = self.deleted
            change.counts = {"deleted": len(self.deleted), "failed": len(self.faults)}

    def raise_if_messages_stayed(self) -> None:
        """Raise `OpsError` if messages were not deleted, with the reason for each."""
        if faults := self.faults:
            lines = "".join(f"\n  {name}: {said}" for name, said in faults.items())
            raise OpsError(
                f"{terminal.counted(len(faults), 'dead letter')} not deleted, of which "
                f"{len(self.not_deleted)} stand in the file; run the same command again:{lines}"
            )

    @property
    def faults(self) -> dict[str, str]:
        """The reason for each message that was not deleted, by message id."""
        return {**self.not_exported, **self.not_deleted}

    def _new_files(self) -> Mapping[Path, Sequence[DeadLetter]]:
        """Return a new file in `FOLDER` for the messages of each consumer."""
        try:
            FOLDER.mkdir(mode=0o700, exist_ok=True)
            (FOLDER / ".gitignore").write_text("*\n")
        except OSError as error:
            raise _not_written(error) from None
        now = datetime.now(UTC)
        return {
            FOLDER / f"dlq-{owner}-{now:%Y%m%dT%H%M%SZ}.jsonl": [
                message for message in self.messages if message.queue.owner == owner
            ]
            for owner in dict.fromkeys(message.queue.owner for message in self.messages)
        }

    def _delete(self, messages: Sequence[DeadLetter]) -> None:
        # The deletion of an old receive may succeed although another command has the message.
        held = self.walk.renew(messages)
        self.not_deleted |= {one.message_id: _STOLEN for one in messages if one not in held}
        if held:
            self.not_deleted |= self.walk.delete(held)
        self.deleted += [
            one.message_id for one in messages if one.message_id not in self.not_deleted
        ]


def exported_text(file: Path, messages: Sequence[DeadLetter]) -> str:
    """Return the number of messages in a file, and until when they can be imported safely."""
    known = [moment for moment in map(safe_until, messages) if moment]
    until = f" is safe until {terminal.format_time(min(known))}" if known else " puts them back"
    number = terminal.counted(len(messages), "dead letter")
    return f"{number} written to {file}; `once dlq import {shlex.quote(str(file))}`{until}"


@dataclass(slots=True)
class MessageImport:
    """An import of the messages of an export.

    Attributes:
        queues: the dead-letter queue for the messages of each consumer.
        journal: the file that notes the imported messages: that of the export with `.imported`.
        new: messages that are to be imported.
        already_present: messages that their queue holds.
        imported_before: messages that an earlier run imported, and that left their queue since.
        past_safe_until: messages whose key may be forgotten.
        failed: the reason for each message that was not imported, by its id in the export.
    """

    sqs: "SQSClient"
    queues: Mapping[str, DeadLetterQueue]
    journal: Path
    new: list[ExportedMessage] = field(default_factory=list)
    already_present: list[ExportedMessage] = field(default_factory=list)
    imported_before: list[ExportedMessage] = field(default_factory=list)
    past_safe_until: list[ExportedMessage] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    _stopped: set[tuple[str, str]] = field(default_factory=set)
    """URL and message group of a FIFO queue with a message that was not imported: others wait."""

    @classmethod
    def of(
        cls,
        deployment: Deployment,
        file: Path,
        messages: Sequence[ExportedMessage],
        into: str | None,
    ) -> Self:
        """Return the import of the messages of a file, into the queue of one consumer if named."""
        queues = {
            name: dead_letter_queues(deployment, into or name)[0]
            for name in dict.fromkeys(message.consumer for message in messages)
        }
        return cls(client("sqs"), queues, file.with_name(f"{file.name}.imported"))

    def plan(
        self, messages: Iterable[ExportedMessage], limit: int, *, again: bool, unsafe: bool
    ) -> None:
        """Sort the messages into `new` and the lists of messages that are left out.

        At most `limit` of these are read. Messages that were imported before are imported `again`,
        and those past `safe_until` only if `unsafe`.
        """
        journal = self.journal
        try:
            lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
            imported = {json.loads(line)["message_id"] for line in lines}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OpsError(
                f"{journal} cannot be read ({error!r}), and says what was imported: repair it, or "
                "move it away and give --again"
            ) from None
        present, now = self._present(limit), datetime.now(UTC)
        for message in messages:
            if present[message.digest] > 0:
                present[message.digest] -= 1
                self.already_present.append(message)
            elif message.message_id in imported and not again:
                self.imported_before.append(message)
            elif not unsafe and (message.safe_until is None or now >= message.safe_until):
                self.past_safe_until.append(message)
            else:
                self.new.append(message)

    def _present(self, limit: int) -> Counter[str]:
        queues = [*dict.fromkeys(self.queues.values())]
        with queue_walk.open_search(queues, limit) as walk:
            found: Counter[str] = Counter()
            for message in (one for page in walk.pages() for one in page):
                with suppress(Exception):  # such a message was never exported
                    found[_digest(message.received["Body"], _kept_attributes(message))] += 1
            if queues and not walk.complete:
                raise OpsError(
                    f"more than {limit} dead letters are there, so that it is not known which of "
                    "the export are among them: raise --limit"
                )
        walk.raise_if_hidden("nothing was imported: it may be there already. ")
        return found

    def run(self, change: operator_changes.Change) -> None:
        """Import the new messages, and note each batch in the journal."""
        self._note([])  # before a message is sent that could not be noted
        try:
            for name, queue in self.queues.items():
                own = [message for message in self.new if message.consumer == name]
                # Within one call to a FIFO queue, a message could overtake one that is repeated.
                most = 1 if queue.is_fifo else BATCH_ENTRIES
                for some in batches_by_size(own, lambda message: message.size, most=most):
                    self._send(queue, some)
        finally:
            change.message_ids = self.imported
            change.counts = {"imported": len(self.imported), "failed": len(self.failed)}

    def _send(self, queue: DeadLetterQueue, messages: Sequence[ExportedMessage]) -> None:
        behind = [one for one in messages if (queue.url, one.message_group) in self._stopped]
        self.failed |= {message.message_id: WAITS for message in behind}
        if not (messages := [message for message in messages if message not in behind]):
            return
        taken, refused = call_for_each(
            lambda entries: self.sqs.send_message_batch(QueueUrl=queue.url, Entries=entries),
            [message.entry() for message in messages],
        )
        self._note(messages[number] for number in taken)
        self.imported += [str(answer["MessageId"]) for answer in taken.values()]
        for number, said in refused.items():
            if queue.is_fifo and (group := messages[number].message_group):
                self._stopped.add((queue.url, group))
            self.failed[messages[number].message_id] = said

    def _note(self, messages: Iterable[ExportedMessage]) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        entries = [{"message_id": message.message_id, "at": at} for message in messages]
        try:
            _append(self.journal, [json.dumps(entry) + "\n" for entry in entries])
        except OSError as error:
            raise OpsError(
                f"{error}: the journal of the import cannot be written; copy the export into a "
                "folder that you can write to"
            ) from None

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the result as JSON values; messages by their ids in the export."""
        return {
            "imported": len(self.new) if dry_run else len(self.imported),
            "there_already": _ids(self.already_present),
            "imported_before": _ids(self.imported_before),
            "past_safe_until": _ids(self.past_safe_until),
            "failed": self.failed,
        }

    def raise_if_messages_are_missing(self) -> None:
        """Raise `OpsError` if messages are neither in their queue nor imported now."""
        before = "imported before, and redriven or purged since; --again imports them once more"
        past = (
            "past their safe_until: their keys may be forgotten, and an event that was committed "
            "would be processed again; --unsafe imports them, and `once dlq redrive` judges each"
        )
        parts = {before: _ids(self.imported_before), past: _ids(self.past_safe_until)}
        parts["refused by SQS"] = [f"{name}: {said}" for name, said in self.failed.items()]
        told = "".join(
            f"\n{len(ids)} {what}:" + "".join(f"\n  {name}" for name in ids)
            for what, ids in parts.items()
            if ids
        )
        if told:
            raise OpsError(f"not all dead letters were imported{told}")


def _ids(messages: Iterable[ExportedMessage]) -> list[str]:
    return [message.message_id for message in messages]
