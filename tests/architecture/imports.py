"""The names that this project's modules import, read from their source without running it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def targets(source: str, module: str) -> Iterator[str]:
    """Yield the modules and names that a module imports, in full: `once.ops.status.app`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=named, names=names, level=level):
                above = module.split(".")[:-level] if level else []
                full = ".".join([*above, *([named] if named else [])])
                yield from (f"{full}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def sources(package: str) -> Iterator[tuple[str, str]]:
    """Yield name and source of each module in a package."""
    for path in ROOT.joinpath(*package.split(".")).rglob("*.py"):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text()
