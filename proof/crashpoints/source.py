"""Every call to the outside in the source code, found by its syntax tree.

A method of an AWS client is recognized by its name, and by having keyword arguments alone.
"""

import ast
from collections.abc import Iterator
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
    """Return the calls of the packages in a folder, each as `module.function Operation`.

    Raises:
        ValueError: an unknown method of Stripe; the error says what to do.
    """
    trees = dict(_trees(root))
    calls = [
        node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Call)
    ]
    services = {
        _text(call.args) for call in calls if _names(call.func)[-1:] in (["client"], ["_client"])
    }
    methods = _methods(frozenset(services - {""}))
    found: set[str] = set()
    for module, tree in trees.items():
        visitor = _CallVisitor(module, methods, _getters_of_secrets(tree))
        visitor.visit(tree)
        found |= visitor.found
    return found


def _trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            if not module.startswith("once.testing"):  # not deployed
                yield module.removesuffix(".__init__"), ast.parse(file.read_text())


@cache
def _methods(services: frozenset[str]) -> dict[str, str]:
    """Return the operation of each method of the services' clients."""
    session = botocore.session.get_session()
    models = [session.get_service_model(name) for name in sorted(services)]
    operations = [operation for model in models for operation in model.operation_names]
    return {xform_name(operation): operation for operation in operations}


def _getters_of_secrets(tree: ast.Module) -> set[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {f.name for f in functions if f.returns and ast.unparse(f.returns).endswith(_SECRETS)}


class _CallVisitor(ast.NodeVisitor):
    """Collects the calls of one module, with the function that each is in."""

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
        self._within += names
        self.generic_visit(node)
        del self._within[-len(names) :]

    def _operation(self, call: ast.Call) -> str | None:
        names = _names(call.func)
        match names:
            case [*_, method] if method in _PAGES:
                return self._methods[_text(call.args)]
            case [*_, "v1", resource, method] if method in _STRIPE:
                return f"{_STRIPE[method]} /v1/{resource}"
            case [*_, "v1", resource, method]:
                raise ValueError(
                    f"{resource}.{method} is an unknown call of Stripe: add its HTTP method to "
                    "_STRIPE of proof/crashpoints/source.py"
                )
            case [library, *_, method] if library in _HTTP and method.islower():
                return ".".join(names)
            case [*_, "urlopen"]:
                return "urlopen"
            case [function, "get"] if function in self._secrets:
                return "GetSecretValue"
            case [*_, method] if not call.args:
                return self._methods.get(method)
        return None


def _names(function: ast.expr) -> list[str]:
    """Return the parts of a dotted expression; a call in it counts as its function."""
    match function:
        case ast.Name():
            return [function.id]
        case ast.Attribute():
            return [*_names(function.value), function.attr]
        case ast.Call():
            return _names(function.func)
    return []


def _text(arguments: list[ast.expr]) -> str:
    """Return the first argument if it is a string; empty otherwise."""
    match arguments:
        case [ast.Constant(value=str(text)), *_]:
            return text
    return ""
