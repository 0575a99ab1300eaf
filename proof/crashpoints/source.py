"""Every call to the outside that stands in the source, found without running it.

The AWS SDK's methods are known by their names, and by taking no argument without its name.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

from proof.report import ROOT

PACKAGES = ("once", "functions", "demo/traffic")
_PAGES = ("get_paginator", "get_waiter")
_HTTP = {"stripe", "requests", "httpx"}
_SECRETS = "SecretsProvider"
_STRIPE = {"create": "POST", "update": "POST", "list": "GET", "retrieve": "GET"}


def calls_in_source(root: Path = ROOT) -> set[str]:
    """Return the calls of the packages: the function that makes it, and the operation.

    Args:
        root: the folder that the packages are in.

    Raises:
        ValueError: a call that cannot be told; the error says what to do.
    """
    trees = dict(_trees(root))
    methods = _methods(services(trees.values()))
    found: set[str] = set()
    for module, tree in trees.items():
        look = _Look(module, methods, _getters_of_secrets(tree))
        look.visit(tree)
        found |= look.found
    return found


def services(trees: Iterable[ast.Module]) -> tuple[str, ...]:
    """Return the AWS services of which a client is made anywhere."""
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {_text(call.args) for call in calls if _names(call.func)[-1:] == ["client"]}
    return tuple(sorted(names - {""}))


def _trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            if not module.startswith("once.testing"):  # doubles, which are not deployed
                yield module.removesuffix(".__init__"), ast.parse(file.read_text())


@cache
def _methods(names: Sequence[str]) -> dict[str, str]:
    """The operation behind each method of the services' clients."""
    session = botocore.session.get_session()
    models = [session.get_service_model(name) for name in names]
    operations = [operation for model in models for operation in model.operation_names]
    return {xform_name(operation): operation for operation in operations}


def _getters_of_secrets(tree: ast.Module) -> set[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if f.returns and ast.unparse(f.returns).endswith(_SECRETS)}


class _Look(ast.NodeVisitor):
    """Looks through one module, and knows at any time in which function it is."""

    def __init__(self, module: str, methods: dict[str, str], secrets: set[str]) -> None:
        self._within = [module]
        self._methods = methods
        self._secrets = secrets
        self.found: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node, [node.name])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._enter(node, [node.name, "<locals>"])

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._enter(node, ["<lambda>", "<locals>"])

    def visit_Call(self, node: ast.Call) -> None:
        if operation := self._operation(node):
            function = ".".join(self._within).removesuffix(".<locals>")
            self.found.add(f"{function} {operation}")
        self.generic_visit(node)

    def _enter(self, node: ast.AST, names: list[str]) -> None:
        before = len(self._within)
        self._within += names
        self.generic_visit(node)
        del self._within[before:]

    def _operation(self, call: ast.Call) -> str | None:
        names = _names(call.func)
        match names:
            case [*_, method] if method in _PAGES:
                return self._methods[_text(call.args)]
            case [*_, "v1", resource, method]:
                return _stripe(resource, method)
            case [library, *_, method] if library in _HTTP and method.islower():
                return ".".join(names)
            case [*_, "urlopen"]:
                return "urlopen"
            case [function, "get"] if function in self._secrets:
                return "GetSecretValue"
            case [*_, method] if not call.args:
                return self._methods.get(method)
        return None


def _stripe(resource: str, method: str) -> str:
    if method not in _STRIPE:
        raise ValueError(
            f"{resource}.{method} is a call of Stripe's that is not known here: say in _STRIPE of "
            "proof/crashpoints/source.py what its HTTP method is"
        )
    return f"{_STRIPE[method]} /v1/{resource}"


def _names(function: ast.expr) -> list[str]:
    """A dotted expression, part by part; a call in it stands for what it calls."""
    match function:
        case ast.Name():
            return [function.id]
        case ast.Attribute():
            return [*_names(function.value), function.attr]
        case ast.Call():
            return _names(function.func)
    return []


def _text(arguments: list[ast.expr]) -> str:
    """The first argument, where it is a text; empty otherwise."""
    match arguments:
        case [ast.Constant(value=str(text)), *_]:
            return text
    return ""
