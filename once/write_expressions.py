"""Write expressions: changes and conditions of a write, as data or as texts, in DynamoDB's form.

Changes and conditions are data. Every name and value gets a placeholder, so that DynamoDB's
reserved words, and characters that have a meaning in an expression, are no concern of a handler.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, TypedDict, cast

from msgspec import Struct, field

from once.dynamodb_rules import Unfit, check_expressions, check_value, serialize
from once.errors import InvalidWrite, Refusal
from once.names import COMMIT_ATTRIBUTE
from once.settings import TableSettings

if TYPE_CHECKING:
    from boto3.dynamodb.conditions import ConditionBase
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

_PATH_PART = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")
_SET_CLAUSE = re.compile(r"(?<![\w#:.])SET\b", re.IGNORECASE)
_COMMIT_NAME, _COMMIT_VALUE = "#once_commit", ":once_commit"
_READ_VALUE, _KEY_NAME = ":once_read", "#once_key"

Path = str | tuple[str | int, ...]
"""An attribute. In a text, dots separate the names of nested maps, and `[0]` is a member of a list.
In a tuple, each text is one name, whatever its characters, and each number a member."""
ByPath = Mapping[str, Any] | Mapping[Path, Any]


class Presence(Enum):
    """A condition on the item as a whole."""

    ABSENT = "attribute_not_exists"
    PRESENT = "attribute_exists"


absent = Presence.ABSENT
"""The condition that there is no item with this key."""
present = Presence.PRESENT
"""The condition that there is an item with this key."""


class Changes(TypedDict, total=False):
    """The changes of one update, by attribute.

    `set` replaces values, `if_not_exists` sets those that are missing, `append` adds members to
    lists, `add` adds to numbers (a missing one is 0) and members to sets, `remove` deletes
    attributes.
    """

    set: "ByPath"
    if_not_exists: "ByPath"
    append: "ByPath"
    add: "ByPath"
    remove: tuple[Path, ...]


CHANGES = {
    "set": ("SET", "{name} = {value}"),
    "if_not_exists": ("SET", "{name} = if_not_exists({name}, {value})"),
    "append": ("SET", "{name} = list_append(if_not_exists({name}, {empty}), {value})"),
    "add": ("ADD", "{name} {value}"),
    "remove": ("REMOVE", "{name}"),
}
"""Clause and form of each change in an update expression."""


class Terms(TypedDict, total=False):
    """Optional terms of a write: a condition, the names of its text, and a refusal.

    The condition is `absent`, `present`, one of `boto3.dynamodb.conditions`, or a text. `otherwise`
    is the business refusal to raise if the condition fails. Without it, a failed condition makes
    the message retry later.
    """

    condition: "str | Presence | ConditionBase"
    names: Mapping[str, str]
    otherwise: Refusal


class UpdateTerms(Terms, Changes, total=False):
    """The changes of an update, and its terms."""


class ItemVersion(Struct, frozen=True):
    """The version of an item that `Transaction.get` read.

    Attributes:
        exists: whether there was an item.
        commit: id of the last commit that wrote it; None if this library never did.
    """

    exists: bool
    commit: str | None

    @classmethod
    def of(cls, item: Mapping[str, Any] | None) -> "ItemVersion":
        """Return the version of an item that was read; pass None for a missing item."""
        return cls(item is not None, (item or {}).get(COMMIT_ATTRIBUTE))


class Action(Struct, kw_only=True):
    """One action on one item. `kind` is DynamoDB's name: Put, Update, Delete or ConditionCheck."""

    kind: str
    table: TableSettings
    key: Mapping[str, Any]
    item: Mapping[str, Any] | None = None
    update: str = ""
    condition: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    otherwise: Refusal | None = None
    read: ItemVersion | None = None

    def render(self, commit: str) -> "TransactWriteItemTypeDef":
        """Return the action as an entry of TransactItems.

        The id of the commit is stored on the item, so that a reader can detect a change.

        Raises:
            InvalidWrite: a value that DynamoDB has no type for.
        """
        names, values = dict(self.names), dict(self.values)
        write = f"a write to {self.table.name}"
        request: dict[str, Any] = {"TableName": self.table.name}
        if self.kind == "Put":
            request["Item"] = serialize({**(self.item or {}), COMMIT_ATTRIBUTE: commit}, write)
        else:
            request["Key"] = serialize(self.key, write)
        if self.kind == "Update":
            request["UpdateExpression"] = with_set(self.update, _COMMIT_NAME, _COMMIT_VALUE)
            names[_COMMIT_NAME], values[_COMMIT_VALUE] = COMMIT_ATTRIBUTE, commit
        condition = unchanged = self._unchanged(names, values)
        if self.condition:
            condition = f"({self.condition}) AND {unchanged}" if unchanged else self.condition
        if condition:
            request["ConditionExpression"] = condition
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if names:
            request["ExpressionAttributeNames"] = names
        if values:
            request["ExpressionAttributeValues"] = serialize(values, write)
        return {self.kind: request}  # type: ignore[misc]

    def _unchanged(self, names: dict[str, str], values: dict[str, Any]) -> str:
        """Return the condition that the item has not changed since it was read."""
        # Two events about one account, with a handler that reads the balance and writes it anew:
        #
        #     A: get (commit id x, balance 10) ── run ── commit: put balance 7 if the id is x
        #     B: get (commit id x, balance 10) ── run ──────────── commit: cancelled, the id is a's
        #
        # B is STALE: its handler runs again, and reads 7. Values are not compared, since a balance
        # may return to 10. An item that this library never wrote must still have no id.
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


def add_terms(
    action: Action,
    table: str,
    terms: Terms,
    values: Mapping[str, Any],
    *,
    update: str | None,
    changes: Mapping[str, Any],
) -> None:
    """Give an action on a table, by its logical name, its expressions and its refusal.

    Without an update expression as text, one is made of the changes.

    Raises:
        InvalidWrite: DynamoDB would refuse the expressions, or a refusal has no condition.
    """
    if "otherwise" in terms and not terms.get("condition"):
        raise InvalidWrite(f"a write to {table} has an otherwise without a condition")
    names, condition = terms.get("names") or {}, terms.get("condition") or ""
    if update is None or not isinstance(condition, str):
        built = Expressions(table, action.table.key, dict(names), dict(values))
        update = built.update(changes) if update is None else update
        condition = built.condition(condition)
        names, values = built.names, built.values
    try:
        check_expressions(update, condition, names, values)
    except Unfit as fault:
        raise InvalidWrite(f"a write to {table}: {fault}") from None
    action.update, action.condition = update, condition
    action.names, action.values = names, values
    action.otherwise = terms.get("otherwise")


class Expressions(Struct):
    """The expressions of one write, with the names and values that they refer to.

    Attributes:
        table: the table's logical name, for errors.
        key: the attributes of the table's primary key.
        names: the names by placeholder, those of a handler's own text among them.
        values: the values by placeholder, likewise.
    """

    table: str
    key: tuple[str, ...]
    names: dict[str, str]
    values: dict[str, Any]

    def update(self, changes: Mapping[str, Any]) -> str:
        """Return an update expression.

        Raises:
            InvalidWrite: there is no change, two changes of one attribute or of a part of it, a
                change of the key, or a value that the change does not take.
        """
        seen: dict[tuple[str | int, ...], str] = {}
        clauses: dict[str, list[str]] = {"SET": [], "ADD": [], "REMOVE": []}
        for option, given in changes.items():
            clause, form = CHANGES[option]
            for path, value in self._pairs(option, given):
                steps = self._steps(path)
                self._check(seen, steps, f"{option}= of {path!r}")
                seen[steps] = f"{option}= of {path!r}"
                name = self._name(steps)
                if option == "remove":
                    clauses[clause].append(name)
                    continue
                self._check_value(option, path, value)
                empty = self._value([]) if option == "append" else ""
                clauses[clause].append(
                    form.format(name=name, value=self._value(value), empty=empty)
                )
        if not seen:
            raise self._error("the update changes nothing; give set=, add= or another change")
        return " ".join(f"{clause} {', '.join(each)}" for clause, each in clauses.items() if each)

    def condition(self, given: Any) -> str:
        """Return a condition expression; a text is one already.

        Raises:
            InvalidWrite: it is no condition, or uses a placeholder of the handler's text.
        """
        if isinstance(given, str):
            return given
        if isinstance(given, Presence):
            return f"{given.value}({self._name((self.key[0],))})"
        # Loaded late: each module costs time at a cold start.
        from boto3.dynamodb.conditions import ConditionBase, ConditionExpressionBuilder

        if not isinstance(given, ConditionBase):
            raise self._error(
                f"its condition is of the type {type(given).__name__}; give absent, present, a "
                "condition of boto3.dynamodb.conditions such as Attr('available').gte(1), or a text"
            )
        built = ConditionExpressionBuilder().build_expression(given)
        names, values = built.attribute_name_placeholders, built.attribute_value_placeholders
        if taken := sorted((names.keys() & self.names) | (values.keys() & self.values)):
            raise self._error(f"{taken[0]} is a placeholder of boto3's condition too; rename it")
        self.names |= names
        self.values |= values
        return str(built.condition_expression)

    def _pairs(self, option: str, given: Any) -> Iterable[tuple[Path, Any]]:
        if option == "remove" and isinstance(given, tuple | list):
            return [(path, None) for path in given]
        if option != "remove" and isinstance(given, Mapping):
            return given.items()
        form = "a tuple, as ('draft',)" if option == "remove" else "a dict, as {'status': 'paid'}"
        raise self._error(f"{option}= is of the type {type(given).__name__}; give {form}")

    def _steps(self, path: Path) -> tuple[str | int, ...]:
        """Return the names and the members of lists on the way to an attribute."""
        are_steps = isinstance(path, tuple) and all(isinstance(step, str | int) for step in path)
        if are_steps and path and isinstance(path[0], str):
            return cast(tuple[str | int, ...], path)
        parts = (
            [_PATH_PART.fullmatch(part) for part in path.split(".")]
            if isinstance(path, str)
            else []
        )
        if not parts or None in parts:
            shown = repr(path) if isinstance(path, str) else f"a {type(path).__name__}"
            raise self._error(
                f"{shown} names no attribute; give a name, with dots between nested ones, or a "
                "tuple of names that may have dots themselves"
            )
        steps: list[str | int] = []
        for part in filter(None, parts):
            steps += [part[1], *map(int, re.findall(r"\d+", part[2]))]
        return tuple(steps)

    def _check(
        self, seen: Mapping[tuple[str | int, ...], str], steps: tuple[str | int, ...], change: str
    ) -> None:
        if steps[0] in self.key:
            raise self._error(f"{change} changes the item's key, which DynamoDB refuses")
        for other, earlier in seen.items():
            if other[: len(steps)] == steps[: len(other)]:
                raise self._error(f"{earlier} and {change} overlap; merge the two")

    def _check_value(self, option: str, path: Path, value: Any) -> None:
        kind = type(value).__name__
        try:
            held = check_value(value)
        except Unfit as fault:
            raise self._error(f"{option}= of {path!r}: {fault}") from None
        if option == "add" and held not in {"N", "NS", "SS", "BS"}:
            raise self._error(
                f"add= of {path!r} is of the type {kind}; give a number or a set with members, or "
                "replace the value with set="
            )
        if option == "append" and not isinstance(value, list | tuple):
            raise self._error(f"append= of {path!r} is of the type {kind}; give a list of members")

    def _name(self, steps: Sequence[str | int]) -> str:
        text = ""
        for step in steps:
            if isinstance(step, int):
                text += f"[{step}]"
                continue
            known = (placeholder for placeholder, name in self.names.items() if name == step)
            placeholder = next(known, None) or _free("#once_", self.names)
            self.names[placeholder] = step
            text += f".{placeholder}" if text else placeholder
        return text

    def _value(self, value: Any) -> str:
        placeholder = _free(":once_", self.values)
        self.values[placeholder] = value
        return placeholder

    def _error(self, text: str) -> InvalidWrite:
        return InvalidWrite(f"a write to {self.table}: {text}")


def _free(prefix: str, taken: Collection[str]) -> str:
    numbered = (f"{prefix}{number}" for number in count(len(taken)))
    return next(each for each in numbered if each not in taken)


def with_set(update: str, name: str, value: str) -> str:
    """Return an update expression that also assigns a value, in its one SET clause."""
    clause = f"SET {name} = {value}"
    if _SET_CLAUSE.search(update):
        return _SET_CLAUSE.sub(f"{clause},", update, count=1)
    return f"{clause} {update}".strip()
