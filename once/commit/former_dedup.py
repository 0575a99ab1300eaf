"""Former dedup: the write by which a commit takes an event's former record, and its results.

Loaded only for events with a former record.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from once.commit.dedup_record import Item, StoredRecord, read_items
from once.commit.result import CommitOutcome, CommitResult, failed
from once.dynamodb_rules import serialize
from once.errors import InFlight, InvalidWrite, PermanentError
from once.former_records import FormerRecord
from once.names import CLOCK_MARGIN_SECONDS, COMMIT_ATTRIBUTE, Reason, explained_by
from once.settings import CommitSettings, TableSettings
from once.transaction import Transaction
from once.write_expressions import Action

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from once.business_tables import ItemKey

_MILLISECONDS = 1000
_LONGEST_FUNCTION_SECONDS = 15 * 60.0
"""Longest timeout of a Lambda function."""


class FormerUnfinished(PermanentError, reason=Reason.FORMER_UNFINISHED):
    """The function that Once replaced began with the event, and may have changed data."""


def former_action(
    transaction: Transaction, record: FormerRecord, settings: CommitSettings, now: float
) -> "dict[ItemKey, Action]":
    """Return the write that takes the event's former record; empty if an earlier commit took it.

    Raises:
        InvalidWrite: the handler itself writes the former record.
    """
    if transaction.owned is not None:  # the commit of the intent took the record
        return {}
    records, table = record.records, settings.tables[record.records.table.name]
    key = _item_key(table, record.key)
    item_key = records.table.name, tuple(sorted(key.items()))
    if item_key in transaction.actions():
        raise InvalidWrite(
            f"an action on {records.table.name} is on the former record of the event, which the "
            "commit writes itself; remove the action"
        )
    item: dict[str, Any] = {**key, records.status: records.done}
    if records.answer is not None and transaction.answer is not None:
        item[records.answer] = _former_answer(transaction.answer)
    put = Action(kind="Put", table=table, key=key, item=item)
    put.names, put.condition = {"#former_key": table.key[0]}, "attribute_not_exists(#former_key)"
    if records.expires_at is not None:
        item[records.expires_at] = int(now) + settings.dedup_window_seconds
        # A record that Once wrote is forgotten together with the dedup record beside it.
        put.names |= {"#former_commit": COMMIT_ATTRIBUTE, "#former_expiry": records.expires_at}
        put.values = {":former_expired": int(now) - CLOCK_MARGIN_SECONDS}
        put.condition += (
            " OR (attribute_exists(#former_commit) AND #former_expiry < :former_expired)"
        )
    return {item_key: put}


def classify_former(
    record: FormerRecord,
    actions: Sequence[Action],
    reasons: Sequence[Mapping[str, Any]],
    settings: CommitSettings,
    now: float,
) -> CommitResult | None:
    """Return the result that a former record gives; None if it did not cancel the transaction.

    The cancellation reasons are those of the dedup record and of the actions, in that order.
    """
    if reasons[0]["Code"] != "None":  # the dedup record decides
        return None
    table = settings.tables[record.records.table.name]
    for action, reason in zip(actions, reasons[1:], strict=True):
        is_former = action.table == table and (*action.key.values(),) == record.key
        if is_former and reason["Code"] == "ConditionalCheckFailed":
            shared = InvalidWrite(
                "another event was committed under the same former record of "
                f"{record.records.table.name}: let the key of former= differ for events that "
                "differ in their idempotency keys"
            )
            return _result(record, reason["Item"], now) or failed(shared)
    return None


def look_up_former(
    client: "DynamoDBClient", records: Sequence[FormerRecord], settings: CommitSettings, now: float
) -> list[CommitResult | None]:
    """Read former records consistently, at most a hundred; return the results that they give.

    None if there is no record, or if Once wrote it: then the dedup record decides.

    Raises:
        OutcomeUnknown, Throttled: DynamoDB did not answer for every record.
    """
    found: dict[tuple[str, tuple[str, ...]], Item] = {}
    for declared in dict.fromkeys(record.records for record in records):
        keys = dict.fromkeys(record.key for record in records if record.records == declared)
        table = settings.tables[declared.table.name]
        names = (*table.key, declared.status, declared.lease_until, COMMIT_ATTRIBUTE)
        names += () if declared.answer is None else (declared.answer,)
        sought = [serialize(_item_key(table, key)) for key in keys]
        for item in read_items(client, table.name, sought, names):
            found[table.name, tuple(item[name]["S"] for name in table.key)] = item
    results: list[CommitResult | None] = []
    for record in records:
        own = found.get((settings.tables[record.records.table.name].name, record.key))
        results.append(None if own is None else _result(record, own, now))
    return results


def _result(record: FormerRecord, item: Item, now: float) -> CommitResult | None:
    """Return what an existing record says of its event; None if Once wrote it."""
    if COMMIT_ATTRIBUTE in item:
        return None
    records = record.records
    if item.get(records.status) == {"S": records.done}:
        answered = None if records.answer is None else _answered(item.get(records.answer))
        return CommitResult(CommitOutcome.DUPLICATE, answered=answered)
    lease = item.get(records.lease_until)
    seconds = 0.0 if lease is None else int(lease["N"]) / _MILLISECONDS - now
    if seconds > 0:
        text = "the former function holds the event's record, and may be processing the event"
        return failed(InFlight(text, min(seconds, _LONGEST_FUNCTION_SECONDS)))
    return failed(
        FormerUnfinished(
            "the former function began with the event and did not finish it: check in the data "
            "whether it changed them, then mark its record as done or delete the record, and "
            f"redrive the message ({explained_by('migrating')}). Its record in "
            f"{records.table.name} is {' / '.join(record.key)}"
        )
    )


def _former_answer(answer: Mapping[str, Any]) -> str:
    """Return the answer to a command as the former function returns it to Lambda, as JSON."""
    kept = answer["M"]
    headers = {name: value["S"] for name, value in kept["headers"]["M"].items()}
    status, body = int(kept["status"]["N"]), kept["body"]["S"]
    return json.dumps({"statusCode": status, "headers": headers, "body": body})


def _answered(text: Mapping[str, str] | None) -> StoredRecord | None:
    """Return the record that a command would have kept for the former function's answer.

    An answer to Lambda keeps its status, headers and body. Any other one is a body in JSON.
    """
    if text is None:
        return None
    found = json.loads(text["S"])
    if isinstance(found, dict) and "statusCode" in found:
        several = (found.get("multiValueHeaders") or {}).items()
        headers = {**(found.get("headers") or {}), **{n: ", ".join(v) for n, v in several}}
        status, body = found["statusCode"], found.get("body") or ""
        body = base64.b64decode(body).decode() if found.get("isBase64Encoded") else body
    else:
        headers = {} if found is None else {"content-type": "application/json"}
        status, body = (204, "") if found is None else (200, text["S"])
    attributes = {name.lower(): {"S": str(value)} for name, value in headers.items()}
    kept = {"status": {"N": str(status)}, "headers": {"M": attributes}, "body": {"S": body}}
    return StoredRecord("", "", 0, None, None, answer={"M": kept})


def _item_key(table: TableSettings, values: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(table.key, values, strict=True))
