"""The event types that source code gives to a method such as `handles` or `publish`."""

import ast
from collections.abc import Iterator, Mapping


def types_given_to(
    method: str, tree: ast.AST, constants: Mapping[str, str]
) -> Iterator[tuple[int, str | None]]:
    """Yield line and event type of each use of a method; None if the type is unknown.

    Args:
        method: the method's name. Its event type is the first argument, or `event_type=`.
        tree: the source.
        constants: the texts that names in the source stand for.
    """
    for line, call in uses_of(method, tree):
        yield line, event_type_of(call, constants)


def uses_of(method: str, tree: ast.AST) -> Iterator[tuple[int, ast.Call | None]]:
    """Yield line and call of each use of a method; None if it is used without a call."""
    nodes = list(ast.walk(tree))
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == method:
            yield node.lineno, calls.get(node)


def event_type_of(call: ast.Call | None, constants: Mapping[str, str]) -> str | None:
    """Return the event type that a call gives; None if it is unknown."""
    if call is None:
        return None
    named = (keyword.value for keyword in call.keywords if keyword.arg == "event_type")
    argument = next(iter(call.args), None) or next(named, None)
    return None if argument is None else text_of(argument, constants)


def text_of(node: ast.expr, constants: Mapping[str, str]) -> str | None:
    """Return the text that an expression stands for; None if it is unknown."""
    match node:
        case ast.Constant(str() as text):
            return text
    return constants.get(ast.unparse(node).removesuffix(".value"))
