"""The event types that each handler may publish, read from the syntax trees of its folder.

The result has rather too many types than too few: functions are found by their bare name, and an
expression that cannot be read stands for every type.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from once.cdk.checks._event_type import types_given_to

SHARED = frozenset({"rejects", "completes"})
"""Decorators of functions that run for the events of any handler."""


@dataclass(frozen=True, slots=True)
class _Function:
    """A function's tree, and the constants of its module."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    constants: Mapping[str, str]

    @property
    def published(self) -> Iterator[str | None]:
        uses = types_given_to("publish", self.node, self.constants)
        return (event_type for _, event_type in uses)

    @property
    def names(self) -> set[str]:
        """Every name in it, which may be that of a function it calls."""
        nodes = list(ast.walk(self.node))
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        return used | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@dataclass(frozen=True, slots=True)
class PublishedTypes:
    """The functions of a folder, by their names and by the event type that they handle."""

    _functions: dict[str, list[_Function]] = field(default_factory=lambda: defaultdict(list))
    _handlers: dict[str, list[_Function]] = field(default_factory=lambda: defaultdict(list))
    _shared: list[_Function] = field(default_factory=list)

    def add(self, tree: ast.Module, constants: Mapping[str, str]) -> None:
        """Add the functions of a module."""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                function = _Function(node, constants)
                self._functions[node.name].append(function)
                for decorator in node.decorator_list:
                    self._register(decorator, function)

    def _register(self, decorator: ast.expr, function: _Function) -> None:
        for _, event_type in types_given_to("handles", decorator, function.constants):
            if event_type is not None:
                self._handlers[event_type].append(function)
        match decorator:
            case ast.Call(func=ast.Attribute(attr=name)) if name in SHARED:
                self._shared.append(function)

    def of(self, event_type: str) -> set[str | None]:
        """Return the types that the handler of an event publishes; None stands for any type."""
        if event_type not in self._handlers:
            return {None}
        waiting = [*self._handlers[event_type], *self._shared]
        seen: set[str] = set()
        found: set[str | None] = set()
        while waiting:
            function = waiting.pop()
            found.update(function.published)
            for name in (function.names & self._functions.keys()) - seen:
                seen.add(name)
                waiting += self._functions[name]
        return found
