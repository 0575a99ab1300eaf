"""The key rules and volatile fields that source code declares with `handles`."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from once.cdk.checks._event_type import text_of

KeyRule = tuple[str, ...]
"""The name of a constructor of `once.Key`, then its arguments: `("field", "order_id")`."""

_DEFAULT: KeyRule = ("event",)
_ARGUMENTS = {"event": 0, "content": 0, "attribute": 1}
"""Number of arguments of each constructor but `field`, which takes one or more."""


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A handler's declaration; None for a part that synthesis cannot read."""

    rule: KeyRule | None
    volatile: tuple[str, ...] | None


UNKNOWN = DeclaredKey(None, None)


def declared_key(call: ast.Call | None, constants: Mapping[str, str]) -> DeclaredKey:
    """Return the declaration of a call of `Consumer.handles`.

    Args:
        call: the call; None if `handles` is used in another way.
        constants: the texts that names in the source stand for.
    """
    if call is None or any(word.arg is None for word in call.keywords):  # `**given`
        return UNKNOWN
    given = {word.arg: word.value for word in call.keywords}
    rule = _rule(given["key"], constants) if "key" in given else _DEFAULT
    return DeclaredKey(rule, _texts_of(given["volatile"], constants) if "volatile" in given else ())


def _rule(node: ast.expr, constants: Mapping[str, str]) -> KeyRule | None:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=[]):
            names = _texts(args, constants)
            is_key = ast.unparse(owner).rpartition(".")[2] == "Key"
            if is_key and names is not None and _fits(name, len(names)):
                return name, *names
    return None


def _fits(name: str, count: int) -> bool:
    return count > 0 if name == "field" else _ARGUMENTS.get(name) == count


def _texts_of(node: ast.expr, constants: Mapping[str, str]) -> tuple[str, ...] | None:
    match node:
        case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
            return _texts(elts, constants)
    return None


def _texts(nodes: list[ast.expr], constants: Mapping[str, str]) -> tuple[str, ...] | None:
    found = [text_of(node, constants) for node in nodes]
    known = [text for text in found if text is not None]
    return tuple(known) if len(known) == len(found) else None
