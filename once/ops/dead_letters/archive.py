"""Archive: dead letters that a purge deleted, in the dedup table until an import puts them back.

A purge writes lines of JSON, compressed and cut into items of the table, and then a note with which
every operator finds them. An import sends the messages of such a line to their dead-letter queues,
and notes their numbers, so that it can be repeated.
"""

import base64
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from msgspec import Struct, ValidationError
from msgspec.json import decode

from once.errors import UNREADABLE
from once.events.cloud_event import CloudEvent
from once.failures.quarantine import Place, batches_by_size, fits, size_of, text
from once.intake.original_message import trace_header
from once.names import DeadLetterAttribute, Limits, Record
from once.ops import dedup_records, operator_changes, operator_notes, terminal
from once.ops.aws.clients import BATCH_ENTRIES, RateLimiter, call_for_each, client
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import assessment, dead_letter_text, queue_walk
from once.ops.dead_letters.dead_letter import WAITS, DeadLetter, DeadLetterQueue, dead_letter_queues
from once.ops.errors import NotFoundError, OpsError, unexpected_error_text

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

RETENTION = timedelta(seconds=dedup_records.MESSAGE_LIFETIME_SECONDS)
"""How long an archive is kept. No message of it can be imported safely for longer."""
_PIECE_BYTES = 300_000
_PIECES_PER_SECOND = 2.0
"""A piece costs 600 write units in a transaction: faster, it could throttle the consumers."""

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


class ArchivedMessage(Struct, frozen=True):
    """A line of an archive: the owner of its dead-letter queue, and its id before the purge.

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
            # Under the archived id, SQS would accept a second import and drop its messages.
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


@dataclass(frozen=True, slots=True)
class Archives:
    """The archives of a deployment."""

    deployment: Deployment

    def find(self, name: str) -> operator_notes.Archive:
        """Return the archive of a name, or of the beginning of one."""
        known = operator_notes.notes_of(self.deployment).archives
        found = [one for one in known if name and one.name.startswith(name)]
        if len(found) != 1:
            several = ", ".join(one.name for one in found)
            fault = (
                f"several archives begin with {name!r} ({several})"
                if found
                else (f"there is no archive {name!r}")
            )
            raise NotFoundError(f"{fault}: `once dlq archives` lists them")
        return found[0]

    def write(self, name: str, lines: Iterable[str], until: datetime) -> int:
        """Write lines under the name of a new archive; return the number of items."""
        packed = zlib.compress("".join(lines).encode())
        pieces = range(0, len(packed), _PIECE_BYTES)
        limiter = RateLimiter(_PIECES_PER_SECOND)
        for number, at in enumerate(pieces):
            limiter.wait(1)
            piece = {":piece": {"B": packed[at : at + _PIECE_BYTES]}}
            self._update(f"{name}#{number}", "SET piece = :piece,", piece, until)
        return len(pieces)

    def read(self, archive: operator_notes.Archive) -> list[ArchivedMessage]:
        keys = [self._key(f"{archive.name}#{number}") for number in range(archive.pieces)]
        found = [self._get(key).get("piece", {}).get("B", b"") for key in keys]
        try:
            lines = zlib.decompress(b"".join(found)).splitlines()
            return [read_line(line) for line in lines]
        except (zlib.error, ValueError) as error:
            raise OpsError(
                f"{archive.name} cannot be read ({error}): nothing was imported"
            ) from None

    def imported(self, name: str) -> set[int]:
        """Return the numbers of the lines that were imported."""
        numbers = self._get(self._key(f"{name}#imported")).get("numbers", {}).get("NS", [])
        return {*map(int, numbers)}

    def note_imported(self, archive: operator_notes.Archive, numbers: Iterable[int]) -> None:
        if noted := [*map(str, numbers)]:
            values = {":numbers": {"NS": noted}}
            self._update(
                f"{archive.name}#imported", "ADD numbers :numbers SET", values, archive.until
            )

    def _key(self, name: str) -> dict[str, Any]:
        return {Record.PK: {"S": f"#archive#{name}"}}

    def _get(self, key: Mapping[str, Any]) -> dict[str, Any]:
        table = self.deployment.dedup_table
        answer = client("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True)
        return dict(answer.get("Item", {}))

    def _update(
        self, name: str, expression: str, values: Mapping[str, Any], until: datetime
    ) -> None:
        ends = {":until": {"N": str(int(until.timestamp()))}}
        update = {
            "TableName": self.deployment.dedup_table,
            "Key": self._key(name),
            "UpdateExpression": f"{expression} {Record.EXPIRES_AT} = :until",
            "ExpressionAttributeValues": {**values, **ends},
        }
        # Operators may write to the table in transactions only.
        client("dynamodb").transact_write_items(TransactItems=[{"Update": update}])


def archived_lines(messages: Iterable[DeadLetter]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the lines of messages, and the reason for each without one, by message id."""
    lines: dict[str, str] = {}
    faults: dict[str, str] = {}
    for message in messages:
        try:
            lines[message.message_id] = archived_line(message) + "\n"
        except OpsError as error:
            faults[message.message_id] = str(error)
        except Exception as error:  # one message must not stop the purge
            faults[message.message_id] = unexpected_error_text(error)
    return lines, faults


def archived_line(message: DeadLetter) -> str:
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


def read_line(line: bytes) -> ArchivedMessage:
    """Read a line of an archive. The ValueError for another line does not quote it."""
    try:
        return decode(line, type=ArchivedMessage)
    except ValidationError as error:
        raise ValueError(f"a line is no archived dead letter ({error})") from None
    except UNREADABLE:
        raise ValueError("a line is not JSON, or nested too deeply") from None


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
    """The archive and deletion of messages that a walk holds.

    It has the reason for each message that could not be archived, or was and is not deleted.
    """

    deployment: Deployment
    walk: queue_walk.QueueWalk
    messages: Sequence[DeadLetter]
    name: str = field(
        default_factory=lambda: f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid4().hex[:4]}"
    )
    archive: operator_notes.Archive | None = None
    deleted: list[str] = field(default_factory=list)
    not_archived: dict[str, str] = field(default_factory=dict)
    not_deleted: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        change: operator_changes.Change,
        why: str | None,
        *,
        batch_deleted: Callable[[], object],
    ) -> None:
        """Archive and delete the messages; count the deleted ones, also after an error.

        `batch_deleted` is called after each batch; what it raises ends the deletion.

        Raises:
            OpsError: the messages were not held without a break; nothing was deleted.
        """
        try:
            self.walk.raise_if_lapsed()
            lines, self.not_archived = archived_lines(self.messages)
            written = [one for one in self.messages if one.message_id in lines]
            if written:
                self._archive(written, lines.values(), change.who, why)
            # After a crash from here on, a message is in the archive, and perhaps in its queue.
            for batch in queue_walk.batches_by_queue(written):
                self._delete(batch)
                batch_deleted()
        finally:
            change.message_ids = self.deleted
            change.counts = {"deleted": len(self.deleted), "failed": len(self.faults)}

    @property
    def faults(self) -> dict[str, str]:
        """The reason for each message that was not deleted, by message id."""
        return {**self.not_archived, **self.not_deleted}

    @property
    def archived_text(self) -> str:
        """Name the archive, and until when it is kept and can be imported safely."""
        if self.archive is None:
            return "nothing was archived"
        known = [moment for moment in map(safe_until, self.messages) if moment]
        until = f" is safe until {terminal.format_time(min(known))}" if known else " puts them back"
        number = terminal.counted(self.archive.number, "dead letter")
        return (
            f"{number} archived until {terminal.format_time(self.archive.until)}; `once dlq import "
            f"{self.name}`{until}"
        )

    def raise_if_messages_stayed(self) -> None:
        """Raise `OpsError` if messages were not deleted, with the reason for each."""
        if faults := self.faults:
            lines = "".join(f"\n  {name}: {said}" for name, said in faults.items())
            raise OpsError(
                f"{terminal.counted(len(faults), 'dead letter')} not deleted, of which "
                f"{len(self.not_deleted)} are archived; run the same command again:{lines}"
            )

    def _archive(
        self, written: Sequence[DeadLetter], lines: Iterable[str], who: str, why: str | None
    ) -> None:
        at = datetime.now(UTC)
        until = at + RETENTION
        consumers = Counter(message.queue.owner for message in written)
        pieces = Archives(self.deployment).write(self.name, lines, until)
        self.archive = operator_notes.Archive(
            self.name, who, at, until, why or "", {**consumers}, pieces
        )
        operator_notes.write_archive(self.deployment, self.archive)

    def _delete(self, messages: Sequence[DeadLetter]) -> None:
        # The deletion of an old receive may succeed although another command has the message.
        held = self.walk.renew(messages)
        self.not_deleted |= {one.message_id: _STOLEN for one in messages if one not in held}
        if held:
            self.not_deleted |= self.walk.delete(held)
        self.deleted += [
            one.message_id for one in messages if one.message_id not in self.not_deleted
        ]


@dataclass(slots=True)
class MessageImport:
    """An import of the messages of an archive.

    Attributes:
        queues: the dead-letter queue for the messages of each consumer.
        numbers: the number of the line of each message, by its id in the archive.
        new: messages that are to be imported.
        already_present: messages that their queue holds.
        imported_before: messages that an earlier run imported, and that left their queue since.
        past_safe_until: messages whose key may be forgotten.
        failed: the reason for each message that was not imported, by its id in the archive.
    """

    sqs: "SQSClient"
    archives: Archives
    archive: operator_notes.Archive
    queues: Mapping[str, DeadLetterQueue]
    numbers: Mapping[str, int]
    new: list[ArchivedMessage] = field(default_factory=list)
    already_present: list[ArchivedMessage] = field(default_factory=list)
    imported_before: list[ArchivedMessage] = field(default_factory=list)
    past_safe_until: list[ArchivedMessage] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    _stopped: set[tuple[str, str]] = field(default_factory=set)
    """URL and message group of a FIFO queue with a message that was not imported: others wait."""

    @classmethod
    def of(
        cls,
        deployment: Deployment,
        archive: operator_notes.Archive,
        messages: Sequence[ArchivedMessage],
        into: str | None,
    ) -> Self:
        """Return the import of an archive's messages, into the queue of one consumer if named."""
        queues = {
            name: dead_letter_queues(deployment, into or name)[0]
            for name in dict.fromkeys(message.consumer for message in messages)
        }
        numbers = {message.message_id: number for number, message in enumerate(messages)}
        return cls(client("sqs"), Archives(deployment), archive, queues, numbers)

    def plan(
        self, messages: Iterable[ArchivedMessage], limit: int, *, again: bool, unsafe: bool
    ) -> None:
        """Sort the messages into `new` and the lists of messages that are left out.

        At most `limit` of these are read. Messages that were imported before are imported `again`,
        and those past `safe_until` only if `unsafe`.
        """
        imported = self.archives.imported(self.archive.name)
        present, now = self._present(limit), datetime.now(UTC)
        for message in messages:
            if present[message.digest] > 0:
                present[message.digest] -= 1
                self.already_present.append(message)
            elif self.numbers[message.message_id] in imported and not again:
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
                with suppress(Exception):  # such a message was never archived
                    found[_digest(message.received["Body"], _kept_attributes(message))] += 1
            if queues and not walk.complete:
                raise OpsError(
                    f"more than {limit} dead letters are there, so that it is not known which of "
                    "the archive are among them: raise --limit"
                )
        walk.raise_if_hidden("nothing was imported: it may be there already. ")
        return found

    def run(self, change: operator_changes.Change) -> None:
        """Import the new messages, and note each batch."""
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

    def _send(self, queue: DeadLetterQueue, messages: Sequence[ArchivedMessage]) -> None:
        behind = [one for one in messages if (queue.url, one.message_group) in self._stopped]
        self.failed |= {message.message_id: WAITS for message in behind}
        if not (messages := [message for message in messages if message not in behind]):
            return
        taken, refused = call_for_each(
            lambda entries: self.sqs.send_message_batch(QueueUrl=queue.url, Entries=entries),
            [message.entry() for message in messages],
        )
        numbers = [self.numbers[messages[number].message_id] for number in taken]
        self.archives.note_imported(self.archive, numbers)
        self.imported += [str(answer["MessageId"]) for answer in taken.values()]
        for number, said in refused.items():
            if queue.is_fifo and (group := messages[number].message_group):
                self._stopped.add((queue.url, group))
            self.failed[messages[number].message_id] = said

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the result as JSON values; messages by their ids in the archive."""
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


def _ids(messages: Iterable[ArchivedMessage]) -> list[str]:
    return [message.message_id for message in messages]
