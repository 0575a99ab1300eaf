"""The sources: private names stay in their package, and the library's texts name no shop."""

import ast
import re

import pytest

import once.cdk
from tests.architecture.imports import ROOT, sources, targets, within

PACKAGES = ("once", "functions", "stacks", "demo", "emulator", "benchmarks", "lab")
"""The packages that keep the rule. Tests and `proof` may import private names."""


def foreign_privates(source: str, module: str) -> list[str]:
    """Return the private modules and names of other packages that `module` imports."""
    return sorted(
        name
        for name in targets(source, module)
        if (owner := _owner(name)) and not f"{module}.".startswith(f"{owner}.")
    )


def _owner(name: str) -> str | None:
    """Return the package that a private name belongs to; None for a public name."""
    parts = name.split(".")
    if not ROOT.joinpath(parts[0]).is_dir():
        return None  # of another project
    private = [n for n, part in enumerate(parts) if part[0] == "_" and not part.startswith("__")]
    if not private:
        return None
    holder = parts[: private[0]]
    return ".".join(holder if ROOT.joinpath(*holder).is_dir() else holder[:-1])


@pytest.mark.parametrize("package", PACKAGES)
def test_private_modules_and_names_stay_in_their_package(package: str) -> None:
    found = {module: foreign_privates(text, module) for module, text in sources(package)}
    assert {module: names for module, names in found.items() if names} == {}


def is_used_outside_its_package(module: str, names: set[tuple[str, str]]) -> bool:
    package = module.rpartition(".")[0]
    return any(
        f"{name}.".startswith(f"{module}.") and not f"{user}.".startswith(f"{package}.")
        for user, name in names
    )


def test_every_public_module_of_the_library_is_used_outside_its_package() -> None:
    exported = set(once.cdk._MODULES.values())
    ours = ("once.ops", "once.testing", "once.cdk.functions")
    public = {
        module
        for module, _ in sources("once")
        if module.count(".") > 1 and not within(module, ours) and "._" not in module
    }
    names = {
        (module, name)
        for package in (*PACKAGES, "proof")
        for module, text in sources(package)
        for name in targets(text, module)
    }
    assert [m for m in public - exported if not is_used_outside_its_package(m, names)] == []


# The library serves any app: its texts name no file or command of the example shop.


SHOPS = re.compile(
    r"\b(?:stacks|functions|demo|emulator)(?:/|\.\w)|\b(?:consumers\.py|app\.py|cdk\.json|Makefile)\b"
    r"|requirements-dev|\bmake (?:setup|demo|test|lint|unit|synth|bootstrap|deploy|lock)\b|the shop"
)
"""`docs/runbook.md` may be named: it is a page of the library."""

OWN = {"functions/__init__.py", "functions/{}/{}", "cdk.json.jinja"}
"""Paths inside a function's package and of a new service, which are the library's own."""


def texts(source: str) -> list[str]:
    """Return every string of a module, docstrings included, with `{}` for formatted values."""
    tree = ast.parse(source)
    parts = {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values]
            found.append("".join(pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [] if id(node) in parts else [node.value]
    return found


def of_the_shop(source: str) -> list[str]:
    return [text for text in texts(source) if SHOPS.search(text) and text not in OWN]


def test_no_text_of_the_library_names_a_file_of_the_shop() -> None:
    found = {module: of_the_shop(text) for module, text in sources("once")}
    assert {module: texts for module, texts in found.items() if texts} == {}
