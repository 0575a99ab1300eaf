"""The line of a consumer, inserted into the source of a registry. The rest stays as it is."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from once.ops.errors import OpsError
from once.ops.new.rendering import fit

_IMPORTED = ("ConsumerProps", "TableProps")
_LONGEST = 100
_WANTED = """\
write it as

CONSUMERS = (
    ConsumerProps(…),
)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLine:
    """A consumer of one table.

    Attributes:
        name: the consumer's name.
        table: the table's name.
        key: the table's key.
        external: the types that it takes from producers.
        events: the types that it takes from consumers.
    """

    name: str
    table: str
    key: str
    external: Sequence[str]
    events: Sequence[str]

    @property
    def constant(self) -> str:
        """The name of the table's constant."""
        return self.table.upper()

    def table_text(self) -> str:
        """Return the statement of the table."""
        return fit(f"{self.constant} = TableProps(", [f'"{self.table}"', f'"{self.key}"'], ")\n")

    def consumer_text(self) -> str:
        """Return the entry of the consumer, as a formatter writes it."""
        types = [("external", self.external), ("events", self.events)]
        lines = [
            "ConsumerProps(",
            f'    "{self.name}",',
            *(line for name, given in types if given for line in _types(name, given)),
            f"    tables=({self.constant},),",
            "),",
        ]
        return "".join(f"    {line}\n" for line in lines)


def with_line(source: str, line: RegistryLine, file: Path) -> str:
    """Return the source of a registry with a further table and consumer.

    Args:
        source: the registry's source.
        line: the consumer.
        file: the registry's file, for errors.

    Raises:
        OpsError: the source has another form than `CONSUMERS = (…)` with the entries on lines of
            their own, or has the table's constant.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise OpsError(f"{file} is no Python ({error}): correct it") from None
    _check_names(tree, line, file)
    first, last = _consumers(tree, source, file)
    lines = source.splitlines(keepends=True)
    table_at = _after_tables(tree) or first
    table = line.table_text() + ("" if table_at != first else "\n")
    return "".join(
        [
            *lines[:table_at],
            table,
            *lines[table_at:last],
            line.consumer_text(),
            *lines[last:],
        ]
    )


def _types(name: str, types: Sequence[str]) -> list[str]:
    listed = ", ".join(f'"{each}"' for each in types) + ("," if len(types) == 1 else "")
    one = f"    {name}=({listed}),"
    if len(one) + len("    ") <= _LONGEST:
        return [one]
    return [f"    {name}=(", *(f'        "{each}",' for each in types), "    ),"]


def _check_names(tree: ast.Module, line: RegistryLine, file: Path) -> None:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if missing := [name for name in _IMPORTED if name not in imported]:
        raise OpsError(
            f"{file} does not import {' and '.join(missing)}: add "
            f"`from once.cdk import {', '.join(_IMPORTED)}`"
        )
    if line.constant in names | imported:
        raise OpsError(f"{file} has the name {line.constant} already: choose another name")


def _consumers(tree: ast.Module, source: str, file: Path) -> tuple[int, int]:
    """Return the line before the statement `CONSUMERS = …`, and the one before its bracket."""
    for node in tree.body:
        if _assigned(node) == "CONSUMERS":
            value = getattr(node, "value", None)
            if isinstance(value, ast.Tuple | ast.List) and node.end_lineno:
                closing = source.splitlines()[node.end_lineno - 1]
                previous = source.splitlines()[node.end_lineno - 2].rstrip()
                if closing in {")", "]"} and previous.endswith((",", "(", "[")):
                    return node.lineno - 1, node.end_lineno - 1
            break
    raise OpsError(f"{file} has no tuple CONSUMERS with each entry on lines of its own: {_WANTED}")


def _after_tables(tree: ast.Module) -> int | None:
    """Return the number of the last line of the last table's statement."""
    tables = [
        node.end_lineno
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "TableProps"
    ]
    return max((each for each in tables if each), default=None)


def _assigned(node: ast.stmt) -> str | None:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else None
