"""Operator notes: what operators leave for one another, in one item of the dedup table.

The item's key begins with `#`, as no dedup key does. It names the Region, because a global table
shows the item in the others. Each note is an attribute of its own, a text of JSON, so that
operators do not overwrite each other's notes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from msgspec.json import decode, encode

from once.names import Record
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.terminal import format_time

_N = TypeVar("_N")
_PAUSED, _ACKNOWLEDGED, _ARCHIVE = "paused#", "acknowledged#", "archive#"


@dataclass(frozen=True, slots=True)
class Pause:
    """The note of a paused consumer. `oldest` is when its oldest waiting message was sent."""

    who: str
    since: datetime
    why: str
    oldest: datetime

    def __str__(self) -> str:
        return f"paused since {format_time(self.since)} by {short_name(self.who)}: {self.why}"


def short_name(arn: str) -> str:
    """Return the end of a caller's ARN, such as the name of a session; or the whole one."""
    return arn.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The note of an operator who works on a consumer, or on the dead letters that failed alike.

    It holds until `until`. Without a reason or an error pattern, it is about all of the consumer's.
    """

    consumer: str
    reason: str | None
    error: str | None
    who: str
    since: datetime
    until: datetime
    why: str

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return (
            f"{short_name(self.who)} works on it since {format_time(self.since)}, noted until "
            f"{format_time(self.until)}{why}"
        )

    @property
    def name(self) -> str:
        """The name of the note's attribute, the same for the same dead letters."""
        group = sha256(f"{self.reason}\n{self.error}".encode()).hexdigest()
        return f"{_ACKNOWLEDGED}{self.consumer}#{group[:16]}"

    def is_about(self, consumer: str, reason: str | None, error: str | None) -> bool:
        """Tell whether it is about dead letters of this consumer with this reason and error."""
        return (
            self.consumer == consumer
            and self.reason in (None, reason)
            and self.error in (None, error)
        )


@dataclass(frozen=True, slots=True)
class Archive:
    """The note of an archive, which is kept until `until`: its dead letters by consumer, and the
    number of items that hold it."""

    name: str
    who: str
    at: datetime
    until: datetime
    why: str
    consumers: Mapping[str, int]
    pieces: int

    @property
    def number(self) -> int:
        return sum(self.consumers.values())


@dataclass(frozen=True, slots=True)
class OperatorNotes:
    """The notes that hold now: pauses by the consumer's name; the others newest first.

    `over` has the names of the attributes of notes that hold no more.
    """

    pauses: Mapping[str, Pause] = field(default_factory=dict)
    acknowledged: Sequence[Acknowledgement] = ()
    archives: Sequence[Archive] = ()
    over: Sequence[str] = ()


def read_notes(deployment: Deployment) -> OperatorNotes:
    """Return the notes. Without an answer of AWS there are none: they are beside what is shown."""
    try:
        return notes_of(deployment)
    except (BotoCoreError, ClientError):
        return OperatorNotes()


def notes_of(deployment: Deployment) -> OperatorNotes:
    """Return the notes, read consistently."""
    item = client("dynamodb").get_item(
        TableName=deployment.dedup_table, Key=_key(), ConsistentRead=True
    )
    texts = {name: value["S"] for name, value in item.get("Item", {}).items()}
    now = datetime.now(UTC)

    def found(prefix: str, kind: type[_N]) -> dict[str, _N]:
        return {
            name: decode(text, type=kind) for name, text in texts.items() if name.startswith(prefix)
        }

    noted, archives = found(_ACKNOWLEDGED, Acknowledgement), found(_ARCHIVE, Archive)
    pauses = found(_PAUSED, Pause).items()
    return OperatorNotes(
        pauses={name.removeprefix(_PAUSED): pause for name, pause in pauses},
        acknowledged=sorted(
            (one for one in noted.values() if one.until > now),
            key=lambda one: one.since,
            reverse=True,
        ),
        archives=sorted(
            (one for one in archives.values() if one.until > now),
            key=lambda one: one.at,
            reverse=True,
        ),
        over=[
            *(name for name, one in noted.items() if one.until <= now),
            *(name for name, one in archives.items() if one.until <= now),
        ],
    )


def write_acknowledgement(deployment: Deployment, note: Acknowledgement) -> None:
    """Write the note, in place of an earlier one about the same; remove those that are over."""
    over = [name for name in read_notes(deployment).over if name != note.name]
    _write(deployment, {note.name: note}, over)


def write_archive(deployment: Deployment, archive: Archive) -> None:
    """Write the note of an archive, whose items are written."""
    _write(deployment, {_ARCHIVE + archive.name: archive}, read_notes(deployment).over)


def write_pause(deployment: Deployment, consumer: str, pause: Pause | None) -> None:
    """Write the note of a paused consumer; with None, remove it."""
    name = _PAUSED + consumer
    _write(deployment, {name: pause} if pause else {}, [] if pause else [name])


def _key() -> dict[str, dict[str, str]]:
    return {Record.PK: {"S": f"#operators#{client('dynamodb').meta.region_name}"}}


def _write(deployment: Deployment, notes: Mapping[str, object], removed: Sequence[str]) -> None:
    names = {f"#{number}": name for number, name in enumerate((*notes, *removed))}
    values = {f":{n}": {"S": encode(note).decode()} for n, note in enumerate(notes.values())}
    sets = ", ".join(f"#{number} = :{number}" for number in range(len(notes)))
    removes = ", ".join([*names][len(notes) :])
    expression = " ".join(filter(None, (sets and f"SET {sets}", removes and f"REMOVE {removes}")))
    update = {
        "TableName": deployment.dedup_table,
        "Key": _key(),
        "UpdateExpression": expression,
        "ExpressionAttributeNames": names,
        **({"ExpressionAttributeValues": values} if values else {}),
    }
    # Operators may write to the table in transactions only.
    client("dynamodb").transact_write_items(TransactItems=[{"Update": update}])
