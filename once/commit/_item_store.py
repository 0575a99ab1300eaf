"""Item store: each dedup record is an attribute of the item that its handler writes (`Dedup.ITEM`).

State and record are one item, so that one write commits both: in a transaction with the writes of
other messages, or alone if messages are not grouped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from once.commit._cancellation import classify, classify_record
from once.commit._record_lookup import Item, read_items
from once.commit.dedup_record import StoredRecord, expired_before, record_attributes
from once.commit.item_record import (
    EXPIRED_BEFORE,
    NAME,
    NEW_OR_EXPIRED,
    is_item_record,
    item_record,
    item_record_name,
)
from once.commit.result import CommitResult, failed
from once.errors import InvalidWrite
from once.settings import CommitSettings, TableSettings
from once.transaction import Action, ItemKey, Transaction, serialize, with_set

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from once.commit._dedup_store import PlainWrite

_RECORD_VALUE, _KEY_NAME = ":once_record", "#once_key"
_NO_REASON = {"Code": "None"}


def _write(client: "DynamoDBClient", entry: Any) -> None:
    """Send an entry of TransactItems as a PutItem or an UpdateItem of its own."""
    [(kind, request)] = entry.items()
    if kind == "Put":
        client.put_item(**request)
    else:
        client.update_item(**request)


@dataclass(frozen=True, slots=True)
class ItemStore:
    """See `once.commit._dedup_store.DedupStore` for the methods.

    Attributes:
        settings: name the one table, and how long keys are remembered.
    """

    settings: CommitSettings

    def prepared(
        self, transaction: Transaction, now: float
    ) -> tuple[Mapping[ItemKey, Action], list[Any]]:
        """Return the one write of the handler, with the record on its item."""
        actions = transaction.actions()
        action = self._only_write(transaction, [*actions.values()])
        [before] = map(transaction.item_read, actions)
        record = {"M": record_attributes(transaction, self.settings, now)}
        name = self._record_name(transaction)
        [(kind, request)] = action.render(transaction.commit_id).items()
        write: Any = request
        if kind == "Put":
            write["Item"] = _with_record(write["Item"], before, name, record)
        else:
            write["UpdateExpression"] = with_set(write["UpdateExpression"], NAME, _RECORD_VALUE)
            write.setdefault("ExpressionAttributeValues", {})[_RECORD_VALUE] = record
        _add_condition(write, action, name, now)
        return actions, [{kind: write}]

    @property
    def plain_write(self) -> "PlainWrite | None":
        """The write of a message that commits alone; None if messages commit in groups."""
        return _write if self.settings.group_size == 1 else None

    def classify(
        self,
        transaction: Transaction,
        actions: Sequence[Action],
        reasons: Sequence[Any],
        made_at: float,
    ) -> CommitResult:
        """Return the result that the item tells, which the reason of a failed condition holds."""
        [action], [reason] = actions, reasons
        item = reason.get("Item") or {}
        record = item_record(item, self._record_name(transaction))
        if record is not None:
            stored = StoredRecord.read(record)
            if not stored.expired(made_at):
                return classify_record(transaction, stored)
        if item and action.kind == "Put" and action.read is None and action.otherwise is None:
            return failed(InvalidWrite(_replaces_unread(action)))
        return classify(transaction, [action], [_NO_REASON, reason])

    def look_up(
        self, client: "DynamoDBClient", transactions: Sequence[Transaction]
    ) -> list[Item | None]:
        """Read the records on their items in one request; at most a hundred."""
        table, names = self._table, [self._record_name(each) for each in transactions]
        keys = [
            {name: {"S": value} for name, value in zip(table.key, values, strict=True)}
            for values in dict.fromkeys(each.identity.item for each in transactions)
        ]
        read = {f"#n{n}": name for n, name in enumerate(dict.fromkeys((*table.key, *names)))}
        found = {
            tuple(item[name]["S"] for name in table.key): item
            for item in (read_items(client, table.name, keys, read) if keys else ())
        }
        items = (found.get(each.identity.item, {}) for each in transactions)
        return [item_record(item, name) for item, name in zip(items, names, strict=True)]

    @property
    def _table(self) -> TableSettings:
        [table] = self.settings.tables.values()
        return table

    def _record_name(self, transaction: Transaction) -> str:
        return item_record_name(self.settings.consumer, transaction.event.type)

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
        names[NAME] = name
        write.setdefault("ExpressionAttributeValues", {})[EXPIRED_BEFORE] = expired_before(now)
        added = NEW_OR_EXPIRED
    given = write.get("ConditionExpression")
    write["ConditionExpression"] = f"({given}) AND {added}" if given else added
    write["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"


def _replaces_unread(action: Action) -> str:
    return (
        f"a put on {action.table.name} would replace an item that the handler did not read, with "
        "the dedup records on it: use tx.update, read the item by tx.get before the put, or give "
        "the put a condition and otherwise="
    )
