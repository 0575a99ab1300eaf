"""Expressions: writes and conditions that a handler gives as data, as DynamoDB's expressions.

Every name and value gets a placeholder, so that DynamoDB's reserved words, and characters that an
expression gives a meaning, are never a handler's concern.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from itertools import count
from typing import Any, TypedDict

from once.errors import InvalidWrite

Path = str | tuple[str | int, ...]
"""An attribute. In a text, dots separate the names of nested maps, and `[0]` is a member of a list.
In a tuple, each text is one name, whatever its characters, and each number a member."""

_PART = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")


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

    set: Mapping[Path, Any]
    if_not_exists: Mapping[Path, Any]
    append: Mapping[Path, Sequence[Any]]
    add: Mapping[Path, Any]
    remove: tuple[Path, ...]


CHANGES = {
    "set": ("SET", "{name} = {value}"),
    "if_not_exists": ("SET", "{name} = if_not_exists({name}, {value})"),
    "append": ("SET", "{name} = list_append(if_not_exists({name}, {empty}), {value})"),
    "add": ("ADD", "{name} {value}"),
    "remove": ("REMOVE", "{name}"),
}
"""Clause and form of each change in an update expression."""


@dataclass(slots=True)
class Expressions:
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
        if isinstance(path, tuple) and path and isinstance(path[0], str):
            return path
        parts = [_PART.fullmatch(part) for part in path.split(".")] if isinstance(path, str) else []
        if not parts or None in parts:
            raise self._error(
                f"{path!r} names no attribute; give a name, with dots between nested ones, or a "
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
        is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
        if _has_float(value):
            raise self._error(
                f"{option}= of {path!r} is or has a float, which DynamoDB cannot hold; give an "
                "int, such as minor units of money, or a Decimal"
            )
        if option == "add" and not (is_number or (isinstance(value, set | frozenset) and value)):
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


def _has_float(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple | set | frozenset):
        return isinstance(value, float)
    return any(map(_has_float, value))
