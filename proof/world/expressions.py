"""DynamoDB's expressions, as far as the service uses them: conditions and updates.

What is not known here is refused, so that a handler which begins to use more is told so.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

Value = dict[str, Any]
"""A value with its type, in DynamoDB's own JSON form: `{"N": "1"}`."""
Item = dict[str, Value]
Part = Callable[["Scope"], Any]

_TOKEN = re.compile(r"\s*([#:]?[A-Za-z_][\w]*|<>|<=|>=|[=<>+(),-])")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class UnknownExpression(Exception):
    """An expression that this stand-in does not understand."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression speaks of: an item, none of it if there is none, names and values."""

    item: Mapping[str, Value] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, item: Item | None, request: Mapping[str, Any]) -> "Scope":
        """Return the scope of one entry of a request."""
        names = request.get("ExpressionAttributeNames", {})
        return cls(item or {}, names, request.get("ExpressionAttributeValues", {}))

    def name(self, token: str) -> str:
        """Return the attribute's name behind a token."""
        return self.names[token] if token.startswith("#") else token


def holds(expression: str | None, scope: Scope) -> bool:
    """Tell whether a condition holds; no condition always does.

    Raises:
        UnknownExpression: it is more than is understood here.
    """
    return expression is None or bool(_condition(expression)(scope))


def updated(expression: str, scope: Scope) -> Item:
    """Return the item after an update.

    Raises:
        UnknownExpression: it is more than is understood here.
    """
    item = dict(scope.item)
    for change in _update(expression):
        change(scope, item)
    return item


class _Tokens:
    """An expression, token by token."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._left = _TOKEN.findall(expression)
        if "".join(self._left) != "".join(expression.split()):
            raise UnknownExpression(expression)

    @property
    def next(self) -> str:
        return self._left[0] if self._left else ""

    def take(self, expected: str | None = None) -> str:
        if not self._left or expected not in (None, self._left[0]):
            raise UnknownExpression(f"{self._text!r}, at {self.next!r}")
        return str(self._left.pop(0))

    def takes(self, word: str) -> bool:
        """Take a word if it is next."""
        if self.next.upper() == word:
            self._left.pop(0)
            return True
        return False


@lru_cache(maxsize=1000)
def _condition(expression: str) -> Part:
    tokens = _Tokens(expression)
    part = _either(tokens)
    if tokens.next:
        raise UnknownExpression(f"{expression!r}, at {tokens.next!r}")
    return part


def _either(tokens: _Tokens) -> Part:
    parts = [_both(tokens)]
    while tokens.takes("OR"):
        parts.append(_both(tokens))
    return lambda scope: any(part(scope) for part in parts)


def _both(tokens: _Tokens) -> Part:
    parts = [_test(tokens)]
    while tokens.takes("AND"):
        parts.append(_test(tokens))
    return lambda scope: all(part(scope) for part in parts)


def _test(tokens: _Tokens) -> Part:
    if tokens.takes("("):
        inner = _either(tokens)
        tokens.take(")")
        return inner
    first = tokens.take()
    if first in ("attribute_exists", "attribute_not_exists"):
        tokens.take("(")
        name = tokens.take()
        tokens.take(")")
        wanted = first == "attribute_exists"
        return lambda scope: (scope.name(name) in scope.item) is wanted
    compare = _COMPARED.get(tokens.take())
    if compare is None:
        raise UnknownExpression(f"after {first!r}")
    left, right = _operand(first), _operand(tokens.take())
    return lambda scope: _compared(compare, left(scope), right(scope))


def _compared(compare: Callable[[Any, Any], bool], left: Value | None, right: Value | None) -> bool:
    """What is not there equals nothing; values of two types do not either."""
    if left is None or right is None or left.keys() != right.keys():
        return False
    return compare(plain(left), plain(right))


def plain(value: Value) -> Any:
    """Return a value as Python compares it."""
    [(kind, content)] = value.items()
    return Decimal(content) if kind == "N" else content


def _operand(token: str) -> Part:
    if token.startswith(":"):
        return lambda scope: scope.values[token]
    return lambda scope: scope.item.get(scope.name(token))


@lru_cache(maxsize=1000)
def _update(expression: str) -> tuple[Callable[[Scope, Item], None], ...]:
    return tuple(_changes(_Tokens(expression)))


def _changes(tokens: _Tokens) -> Iterator[Callable[[Scope, Item], None]]:
    clauses = {"SET": _assignment, "ADD": _addition, "REMOVE": _removal}
    while tokens.next:
        clause = clauses.get(tokens.take().upper())
        if clause is None:
            raise UnknownExpression("an update that is no SET, ADD or REMOVE")
        yield clause(tokens)
        while tokens.takes(","):
            yield clause(tokens)


def _assignment(tokens: _Tokens) -> Callable[[Scope, Item], None]:
    target = tokens.take()
    tokens.take("=")
    value = _sum(tokens)

    def change(scope: Scope, item: Item) -> None:
        item[scope.name(target)] = value(scope)

    return change


def _sum(tokens: _Tokens) -> Part:
    left = _term(tokens)
    sign = {"+": 1, "-": -1}.get(tokens.next)
    if sign is None:
        return left
    tokens.take()
    right = _term(tokens)
    return lambda scope: {"N": str(plain(left(scope)) + sign * plain(right(scope)))}


def _term(tokens: _Tokens) -> Part:
    token = tokens.take()
    if token != "if_not_exists":  # noqa: S105
        return _operand(token)
    tokens.take("(")
    name = tokens.take()
    tokens.take(",")
    other = _operand(tokens.take())
    tokens.take(")")
    return lambda scope: scope.item.get(scope.name(name)) or other(scope)


def _addition(tokens: _Tokens) -> Callable[[Scope, Item], None]:
    target, value = tokens.take(), _operand(tokens.take())

    def change(scope: Scope, item: Item) -> None:
        before = item.get(scope.name(target), {"N": "0"})
        item[scope.name(target)] = {"N": str(plain(before) + plain(value(scope)))}

    return change


def _removal(tokens: _Tokens) -> Callable[[Scope, Item], None]:
    target = tokens.take()

    def change(scope: Scope, item: Item) -> None:
        item.pop(scope.name(target), None)

    return change
