"""Record update: a change of a pending record, fenced by the owner's token and the standing."""

from typing import TYPE_CHECKING

from once.commit.dedup_record import record_key
from once.handlers.intent import Intent
from once.schema import Record, State

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import UpdateTypeDef

_OWNED = "#state = :pending AND #owner = :owner AND #standing = :standing"


def record_update(table: str, pk: str, before: Intent, after: Intent) -> "UpdateTypeDef":
    """Return the update that sets every attribute of an intent.

    Its condition fails if the record is not pending any more, or if its owner or its standing have
    changed.

    Args:
        table: the table of dedup records.
        pk: the partition key of the record.
        before: the intent as it was read.
        after: the intent as it is to be.
    """
    values, names = after.item(), before.item() | after.item()
    gone = sorted(before.item().keys() - values.keys())
    changes = "SET " + ", ".join(f"#{name} = :new_{name}" for name in values)
    if gone:
        changes += " REMOVE " + ", ".join(f"#{name}" for name in gone)
    return {
        "TableName": table,
        "Key": record_key(pk),
        "UpdateExpression": changes,
        "ConditionExpression": _OWNED,
        "ExpressionAttributeNames": {f"#{name}": name for name in (*names, Record.STATE)},
        "ExpressionAttributeValues": {
            **{f":new_{name}": value for name, value in values.items()},
            ":pending": {"S": State.PENDING},
            ":owner": {"S": before.owner},
            ":standing": {"S": before.standing},
        },
    }
