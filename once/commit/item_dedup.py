"""Item dedup: each dedup record is an attribute of the item that its handler writes (`Dedup.ITEM`).

State and record are one item, so that one write commits both: in a transaction with the writes of
other messages, or alone if messages are not grouped. The attribute is named for the consumer and
the event type, so that several of them can write one item; the item's own key is the event's. It
holds what a record of the dedup table holds besides its key and its event type.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from once.commit.committer import CommitRequest, Committer
from once.commit.dedup_record import (
    Item,
    StoredRecord,
    expired_before,
    read_items,
    record_attributes,
)
from once.commit.result import CommitResult, classify, classify_record, failed
from once.dynamodb_rules import serialize
from once.errors import InvalidWrite
from once.settings import ITEM_RECORD_PREFIX, TableSettings
from once.transaction import Transaction
from once.write_expressions import Action, with_set

if TYPE_CHECKING:
    from once.business_tables import ItemKey

_RECORD_VALUE, _KEY_NAME = ":once_record", "#once_key"
_NAME, _EXPIRED_BEFORE = "#once_record", ":once_expired_before"

_NEW_OR_EXPIRED = f"(attribute_not_exists({_NAME}) OR {_NAME}.expires_at < {_EXPIRED_BEFORE})"
"""Condition of a write: the item has no record of this consumer and event type, or a forgotten one.

As in the dedup table, the condition is the window. Of two deliveries at once, the second finds the
record of the first on the item, which ALL_OLD returns with the failed condition."""

_NO_REASON = {"Code": "None"}


def item_record_name(consumer: str, event_type: str) -> str:
    return f"{ITEM_RECORD_PREFIX}{consumer}#{event_type}"


def is_item_record(attribute: str) -> bool:
    """Return whether an attribute holds a dedup record of any consumer."""
    return attribute.startswith(ITEM_RECORD_PREFIX)


def item_record(item: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the record in an attribute of an item, as attributes in DynamoDB's JSON; None if none.

    A value that is no record is returned without attributes, so that reading it fails.
    """
    value = item.get(name)
    return None if value is None else dict(value.get("M", {}))


class ItemCommitter(Committer):
    """Commits each transaction by one write, which has the dedup record on its item."""

    def _entries(
        self, transaction: Transaction, now: float
    ) -> "tuple[Mapping[ItemKey, Action], list[Any]]":
        actions = transaction.actions()
        action = self._only_write(transaction, [*actions.values()])
        [before] = map(transaction.item_read, actions)
        record = {"M": record_attributes(transaction, self._settings, now)}
        name = self._record_name(transaction)
        [(kind, request)] = action.render(transaction.commit_id).items()
        write: Any = request
        if kind == "Put":
            write["Item"] = _with_record(write["Item"], before, name, record)
        else:
            write["UpdateExpression"] = with_set(write["UpdateExpression"], _NAME, _RECORD_VALUE)
            write.setdefault("ExpressionAttributeValues", {})[_RECORD_VALUE] = record
        _add_condition(write, action, name, now)
        return actions, [{kind: write}]

    def _records(self, transactions: Sequence[Transaction]) -> list[Item | None]:
        table, names = self._table, [self._record_name(each) for each in transactions]
        keys = [
            {name: {"S": value} for name, value in zip(table.key, values, strict=True)}
            for values in dict.fromkeys(each.identity.item for each in transactions)
        ]
        found = {
            tuple(item[name]["S"] for name in table.key): item
            for item in read_items(self._client, table.name, keys, (*table.key, *names))
        }
        items = (found.get(each.identity.item, {}) for each in transactions)
        return [item_record(item, name) for item, name in zip(items, names, strict=True)]

    def _classify(self, request: CommitRequest, reasons: Sequence[Any]) -> CommitResult:
        """Return the result that the item tells, which the reason of a failed condition holds."""
        transaction, [action], [reason] = request.transaction, request.actions.values(), reasons
        item = reason.get("Item") or {}
        record = item_record(item, self._record_name(transaction))
        if record is not None:
            stored = StoredRecord.read(record)
            if not stored.expired(request.made_at):
                return classify_record(transaction, stored)
        if item and action.kind == "Put" and action.read is None and action.otherwise is None:
            return failed(
                InvalidWrite(
                    f"a put on {action.table.name} would replace an item that the handler did not "
                    "read, with the dedup records on it: use tx.update, read the item by tx.get "
                    "before the put, or give the put a condition and otherwise="
                )
            )
        return classify(transaction, [action], [_NO_REASON, reason])

    @property
    def _table(self) -> TableSettings:
        [table] = self._settings.tables.values()
        return table

    def _record_name(self, transaction: Transaction) -> str:
        return item_record_name(self._settings.consumer, transaction.event.type)

    def _only_write(self, transaction: Transaction, actions: Sequence[Action]) -> Action:
        table = self._table
        key = dict(zip(table.key, transaction.identity.item, strict=True))
        if len(actions) != 1 or actions[0].kind not in {"Put", "Update"}:
            raise InvalidWrite(
                "this consumer keeps its dedup record on the item: each event writes exactly one "
                "item, by tx.put or tx.update, and reads no other; write it, or deploy the "
                "consumer with dedup=Dedup.RECORD"
            )
        if actions[0].key != key:
            raise InvalidWrite(
                f"the {actions[0].kind} on {table.name} is not of the item that holds the event's "
                f"dedup record: its {' and '.join(key)} must be the fields of key=Key.field(…), in "
                "Unicode NFC; write that item, or deploy the consumer with dedup=Dedup.RECORD"
            )
        return actions[0]


class PlainWriteCommitter(ItemCommitter):
    """Commits one transaction at a time, by a PutItem or an UpdateItem outside of a transaction.

    Such a write costs half of one inside.
    """

    def _sendable(self, entries: list[Any], bodies: list[Any]) -> list[Any]:  # noqa: ARG002
        return entries

    def _send(self, entries: Any) -> None:
        [entry] = entries
        [(kind, request)] = entry.items()
        if kind == "Put":
            self._client.put_item(**request)
        else:
            self._client.update_item(**request)


def _with_record(item: Item, before: Mapping[str, Any], name: str, record: Any) -> Item:
    """Return the item to put: it keeps the records of the item that the handler read."""
    own = {key: value for key, value in item.items() if not is_item_record(key)}
    kept = {key: value for key, value in before.items() if is_item_record(key)}
    return {**own, **serialize(kept), name: record}


def _add_condition(write: dict[str, Any], action: Action, name: str, now: float) -> None:
    names = write.setdefault("ExpressionAttributeNames", {})
    if action.kind == "Put" and action.read is None:
        # The records on an item that the handler did not read would be lost.
        names[_KEY_NAME] = action.table.key[0]
        added = f"attribute_not_exists({_KEY_NAME})"
    else:
        names[_NAME] = name
        write.setdefault("ExpressionAttributeValues", {})[_EXPIRED_BEFORE] = expired_before(now)
        added = _NEW_OR_EXPIRED
    given = write.get("ConditionExpression")
    write["ConditionExpression"] = f"({given}) AND {added}" if given else added
    write["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
