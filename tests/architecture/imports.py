"""The imports of this project's modules, read from their source without running it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

OURS = frozenset(
    {
        *("once", "functions", "stacks", "demo", "emulator"),
        *("benchmarks", "proof", "docs", "tests", "app", "lab", "redelivery"),
    }
)


def imported(source: str, module: str) -> Iterator[str]:
    """Yield the modules of this project that the source of `module` imports.

    A name that is imported from a top-level package counts as its module: `from once import
    Consumer` is `once.Consumer`.
    """
    for node in ast.walk(ast.parse(source)):
        yield from (name for name in _named_by(node, module) if _is_ours(name))


def targets(source: str, module: str) -> Iterator[str]:
    """Yield the modules and names that a module imports, in full: `once.ops.status.app`."""
    for node in ast.walk(ast.parse(source)):
        for name in filter(_is_ours, _named_by(node, module)):
            # Without a dot in the `from` part, `_named_by` has added the imported name already.
            if isinstance(node, ast.ImportFrom) and "." in (node.module or ""):
                yield from (f"{name}.{alias.name}" for alias in node.names)
            else:
                yield name


def _named_by(node: ast.AST, module: str) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=source, names=names, level=level):
            above = module.split(".")[:-level] if level else []
            full = ".".join([*above, *([source] if source else [])])
            return [full if "." in full else f"{full}.{alias.name}" for alias in names]
        case ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=str(name)), *_]):
            return [name] if called in {"import_module", "__import__"} else []
        case ast.Call(
            func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name))]
        ):
            return [name]
    return []


def _is_ours(name: str) -> bool:
    return name.split(".")[0] in OURS


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def sources(package: str) -> Iterator[tuple[str, str]]:
    """Yield name and source of each module in a package."""
    for path in ROOT.joinpath(*package.split(".")).rglob("*.py"):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text()
