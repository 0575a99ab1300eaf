"""Operator notes: what operators leave for one another, in one item of the dedup table.

The item's key begins with `#`, as no dedup key does. It names the Region, because a global table
shows the item in the others. Each note is an attribute of its own, a text of JSON, so that
operators do not overwrite each other's notes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from once.names import Record
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.terminal import format_time

_PAUSED = "paused#"


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


def read_pauses(deployment: Deployment) -> dict[str, Pause]:
    """Return the notes of the paused consumers by the consumers' names.

    A note of a form that this version does not know is left out.
    """
    found = {}
    for name, text in _notes(deployment).items():
        if name.startswith(_PAUSED):
            found[name.removeprefix(_PAUSED)] = msgspec.json.decode(text, type=Pause)
    return found


def write_pause(deployment: Deployment, consumer: str, pause: Pause | None) -> None:
    """Write the note of a paused consumer; with None, remove it."""
    _write(deployment, _PAUSED + consumer, pause)


def _key() -> dict[str, dict[str, str]]:
    return {Record.PK: {"S": f"#operators#{client('dynamodb').meta.region_name}"}}


def _notes(deployment: Deployment) -> Mapping[str, str]:
    item = client("dynamodb").get_item(
        TableName=deployment.dedup_table, Key=_key(), ConsistentRead=True
    )
    notes = item.get("Item", {}).items()
    return {name: value["S"] for name, value in notes if name != Record.PK}


def _write(deployment: Deployment, name: str, note: object | None) -> None:
    values = {":note": {"S": msgspec.json.encode(note).decode()}}
    update = {
        "TableName": deployment.dedup_table,
        "Key": _key(),
        "UpdateExpression": "REMOVE #note" if note is None else "SET #note = :note",
        "ExpressionAttributeNames": {"#note": name},
        **({} if note is None else {"ExpressionAttributeValues": values}),
    }
    # Operators may write to the table in transactions only.
    client("dynamodb").transact_write_items(TransactItems=[{"Update": update}])
