"""Actions: a handler's writes and checks, and their form in TransactWriteItems."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from boto3.dynamodb.types import TypeSerializer

from once.errors import InvalidWrite, Refusal
from once.schema import COMMIT_ATTRIBUTE

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

    from once.settings import TableSettings

Item = Mapping[str, Any]
ItemKey = tuple[str, tuple[tuple[str, Any], ...]]
"""A table's logical name, and the attributes of an item's primary key."""

_SERIALIZER = TypeSerializer()
_LARGEST_INTEGER = 10**38 - 1  # DynamoDB holds 38 digits
_SET_CLAUSE = re.compile(r"(?<![\w#:.])SET\b", re.IGNORECASE)
_COMMIT_NAME, _COMMIT_VALUE = "#once_commit", ":once_commit"
_READ_VALUE, _KEY_NAME = ":once_read", "#once_key"


@dataclass(frozen=True, slots=True)
class Table:
    """A business table by its logical name. `Consumer.table` makes one."""

    name: str


@dataclass(frozen=True, slots=True)
class ItemVersion:
    """The version of an item that `Transaction.get` read.

    Attributes:
        exists: whether there was an item.
        commit: id of the last commit that wrote it; None if this library never did.
    """

    exists: bool
    commit: str | None

    @classmethod
    def of(cls, item: Item | None) -> "ItemVersion":
        """Return the version of an item that was read; pass None for a missing item."""
        return cls(item is not None, (item or {}).get(COMMIT_ATTRIBUTE))


class Terms(TypedDict, total=False):
    """Optional terms of a write: a condition expression, its names, and a refusal.

    `otherwise` is the business refusal to raise if the condition fails. Without it, a failed
    condition makes the message retry later.
    """

    condition: str
    names: Mapping[str, str]
    otherwise: Refusal


@dataclass(slots=True, kw_only=True)
class Action:
    """One action on one item. `kind` is DynamoDB's name: Put, Update, Delete or ConditionCheck."""

    kind: str
    table: "TableSettings"
    key: Item
    item: Item | None = None
    update: str = ""
    condition: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    otherwise: Refusal | None = None
    read: ItemVersion | None = None

    def render(self, commit: str) -> "TransactWriteItemTypeDef":
        """Return the action as an entry of TransactItems.

        Args:
            commit: the id of this commit, stored on the item so that a reader can detect a change.

        Raises:
            InvalidWrite: a value that DynamoDB has no type for.
        """
        names, values = dict(self.names), dict(self.values)
        request: dict[str, Any] = {"TableName": self.table.name}
        if self.kind == "Put":
            request["Item"] = serialize({**(self.item or {}), COMMIT_ATTRIBUTE: commit})
        else:
            request["Key"] = serialize(self.key)
        if self.kind == "Update":
            request["UpdateExpression"] = with_set(self.update, _COMMIT_NAME, _COMMIT_VALUE)
            names[_COMMIT_NAME], values[_COMMIT_VALUE] = COMMIT_ATTRIBUTE, commit
        if condition := self._full_condition(names, values):
            request["ConditionExpression"] = condition
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if names:
            request["ExpressionAttributeNames"] = names
        if values:
            request["ExpressionAttributeValues"] = serialize(values)
        return {self.kind: request}  # type: ignore[misc]

    def _full_condition(self, names: dict[str, str], values: dict[str, Any]) -> str:
        unchanged = self._unchanged(names, values)
        if self.condition and unchanged:
            return f"({self.condition}) AND {unchanged}"
        return self.condition or unchanged

    def _unchanged(self, names: dict[str, str], values: dict[str, Any]) -> str:
        """Return the condition that the item has not changed since it was read."""
        if self.read is None:
            return ""
        if self.read.commit is not None:
            names[_COMMIT_NAME], values[_READ_VALUE] = COMMIT_ATTRIBUTE, self.read.commit
            return f"{_COMMIT_NAME} = {_READ_VALUE}"
        names[_KEY_NAME] = self.table.key[0]
        if not self.read.exists:
            return f"attribute_not_exists({_KEY_NAME})"
        names[_COMMIT_NAME] = COMMIT_ATTRIBUTE
        return f"attribute_exists({_KEY_NAME}) AND attribute_not_exists({_COMMIT_NAME})"


def rendered(actions: Iterable[Action], commit: str) -> list["TransactWriteItemTypeDef"]:
    """Return actions as entries of TransactItems; see `Action.render`."""
    return [action.render(commit) for action in actions]


def serialize(item: Item) -> dict[str, Any]:
    """Return an item in DynamoDB's JSON. Numbers are Decimal or int; float is refused.

    Raises:
        InvalidWrite: a name is not text, or DynamoDB has no type for a value.
    """
    try:
        return _attributes(item)
    except (TypeError, ArithmeticError) as error:
        raise InvalidWrite(
            f"a value that DynamoDB cannot hold: {error} (money is int minor units or Decimal)"
        ) from None


def _attributes(item: Item) -> dict[str, Any]:
    for name in item:
        if not isinstance(name, str):
            raise InvalidWrite(f"{name!r} is no Unicode text, which DynamoDB asks for")
    return {name: _value(value) for name, value in item.items()}


def _value(value: Any) -> Any:
    """Return what boto3's serializer returns; for frequent types it takes five times as long."""
    kind = type(value)
    if kind is str:
        return {"S": value}
    if kind is int and -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
        return {"N": str(value)}
    if kind is bytes:
        return {"B": value}
    if isinstance(value, list | tuple):
        return {"L": [_value(member) for member in value]}
    if kind is dict or isinstance(value, Mapping):
        return {"M": _attributes(value)}
    return _SERIALIZER.serialize(value)


def with_set(update: str, name: str, value: str) -> str:
    """Return an update expression that also assigns a value, in its one SET clause."""
    clause = f"SET {name} = {value}"
    if _SET_CLAUSE.search(update):
        return _SET_CLAUSE.sub(f"{clause},", update, count=1)
    return f"{clause} {update}".strip()
