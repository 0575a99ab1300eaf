"""DynamoDB's condition and update expressions, as far as the service uses them.

Any other syntax is rejected, so that a handler that begins to use more fails instead of passing.
moto's parser is not used: it takes sixty times as long, and the tests compare this one with it.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

Value = dict[str, Any]
"""A value with its type, in DynamoDB's JSON form: `{"N": "1"}`."""
Item = dict[str, Value]
Test = Callable[["Scope"], bool]
Term = Callable[["Scope"], Any]
Change = Callable[["Scope", Item], object]

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAME = r"#?[A-Za-z_]\w*"
_OPERAND = r"[#:]?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?"
_TEST = re.compile(
    rf"attribute_(?P<absent>not_)?exists\s*\(\s*(?P<name>{_NAME})\s*\)"
    rf"|(?P<left>{_OPERAND})\s*(?P<compare><>|<=|>=|=|<|>)\s*(?P<right>{_OPERAND})"
)
_JOIN = re.compile(r"\b(?:AND|OR)\b", re.I)
_CLAUSE = re.compile(
    r"\s*(SET|ADD|REMOVE)\s+(.+?)\s*(?=\b(?:SET|ADD|REMOVE)\b|$)", re.DOTALL | re.I
)
_TERM = rf"{_OPERAND}|if_not_exists\s*\(\s*{_NAME}\s*,\s*{_OPERAND}\s*\)"
_CHANGES = {
    "SET": re.compile(rf"({_NAME})\s*=\s*({_TERM})\s*(?:([+-])\s*({_TERM}))?\s*"),
    "ADD": re.compile(rf"({_NAME})\s+({_OPERAND})\s*"),
    "REMOVE": re.compile(rf"({_NAME})\s*"),
}


class UnknownExpression(Exception):
    """An expression that is not supported here."""


@dataclass(frozen=True, slots=True)
class Scope:
    """An item, empty if there is none, and the names and values of an expression."""

    item: Mapping[str, Value] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, item: Item | None, request: Mapping[str, Any]) -> "Scope":
        """Return the scope of one entry of a request."""
        names = request.get("ExpressionAttributeNames", {})
        return cls(item or {}, names, request.get("ExpressionAttributeValues", {}))

    def name(self, token: str) -> str:
        """Return the attribute's name of a token."""
        return self.names[token] if token.startswith("#") else token

    def find(self, token: str) -> Value | None:
        """Return the value of a token; None for an attribute that the item does not have.

        A dot leads into a map: `#record.expires_at`.
        """
        if token.startswith(":"):
            return self.values[token]
        name, _, member = token.partition(".")
        found = self.item.get(self.name(name))
        return found if found is None or not member else found.get("M", {}).get(member)


def holds(expression: str | None, scope: Scope) -> bool:
    """Tell whether a condition is met; None always is.

    Raises:
        UnknownExpression: it is not supported.
    """
    return expression is None or _condition(expression)(scope)


def updated(expression: str, scope: Scope) -> Item:
    """Return the item after an update.

    Raises:
        UnknownExpression: it is not supported.
    """
    item = dict(scope.item)
    for change in _changes(expression):
        change(scope, item)
    return item


def plain(value: Value) -> Any:
    """Return a value as Python compares it."""
    [(kind, content)] = value.items()
    return Decimal(content) if kind == "N" else content


@lru_cache(maxsize=1000)
def _condition(expression: str) -> Test:
    """Translate a condition to Python, which has the same `and`, `or` and parentheses."""
    tests: list[Test] = []

    def numbered(found: re.Match[str]) -> str:
        tests.append(_test(found))
        return f" tests[{len(tests) - 1}](scope) "

    if _JOIN.sub("", _TEST.sub("", expression)).strip("() \n"):
        raise UnknownExpression(expression)
    source = _JOIN.sub(lambda word: word[0].lower(), _TEST.sub(numbered, expression))
    try:
        condition: Test = eval(f"lambda scope: {source}", {"tests": tests})  # noqa: S307
    except SyntaxError:
        raise UnknownExpression(expression) from None
    return condition


def _test(found: re.Match[str]) -> Test:
    if name := found["name"]:
        wanted = not found["absent"]
        return lambda scope: (scope.name(name) in scope.item) is wanted
    compare, left, right = _COMPARISONS[found["compare"]], found["left"], found["right"]
    return lambda scope: _compared(compare, scope.find(left), scope.find(right))


def _compared(compare: Callable[[Any, Any], bool], left: Value | None, right: Value | None) -> bool:
    """Compare two values; False if one is missing or their types differ."""
    if left is None or right is None or left.keys() != right.keys():
        return False
    return compare(plain(left), plain(right))


@lru_cache(maxsize=1000)
def _changes(expression: str) -> tuple[Change, ...]:
    clauses = [*_CLAUSE.finditer(expression)]
    if not clauses or "".join(clause[0] for clause in clauses) != expression:
        raise UnknownExpression(expression)
    return tuple(
        _change(clause[1].upper(), text)
        for clause in clauses
        for text in re.split(r",\s*(?![^(]*\))", clause[2])
    )


def _change(clause: str, text: str) -> Change:
    found = _CHANGES[clause].fullmatch(text)
    if found is None:
        raise UnknownExpression(f"{clause} {text}")
    target = found[1]
    if clause == "REMOVE":
        return lambda scope, item: item.pop(scope.name(target), None)
    if clause == "ADD":
        value = _sum(lambda scope: scope.find(target) or {"N": "0"}, "+", _term(found[2]))
    else:
        value = _sum(_term(found[2]), found[3], _term(found[4])) if found[3] else _term(found[2])

    def change(scope: Scope, item: Item) -> None:
        item[scope.name(target)] = value(scope)

    return change


def _sum(left: Term, sign: str, right: Term) -> Term:
    combine = operator.add if sign == "+" else operator.sub
    return lambda scope: {"N": str(combine(plain(left(scope)), plain(right(scope))))}


def _term(text: str) -> Term:
    if not text.startswith("if_not_exists"):
        return lambda scope: scope.find(text)
    name, other = re.findall(_OPERAND, text.partition("(")[2])
    return lambda scope: scope.find(name) or scope.find(other)
