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
    nodes = list(ast.walk(tree))
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == method:
            yield node.lineno, _event_type(calls.get(node), constants)


def _event_type(call: ast.Call | None, constants: Mapping[str, str]) -> str | None:
    if call is None:
        return None
    named = (keyword.value for keyword in call.keywords if keyword.arg == "event_type")
    argument = next(iter(call.args), None) or next(named, None)
    match argument:
        case None:
            return None
        case ast.Constant(str() as text):
            return text
    return constants.get(ast.unparse(argument).removesuffix(".value"))
