"""The line of a consumer, inserted into the source of a registry. The rest stays as it is."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from once.ops.errors import OpsError

LONGEST = 100
"""Most characters of a line of Python."""

_IMPORTED = ("ConsumerProps", "TableProps")
_WANTED = """\
write it as

CONSUMERS = (
    ConsumerProps(…),
)"""


def fit(head: str, arguments: list[str], tail: str, indent: int = 0) -> str:
    """Return a call as formatters write it: one line, or a line for each argument."""
    line = f"{head}{', '.join(arguments)}{tail}"
    if indent + len(line) <= LONGEST:
        return line
    inner = [f"{' ' * (indent + 4)}{argument}," for argument in arguments]
    return "\n".join([head, *inner, f"{' ' * indent}{tail}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLine:
    """A consumer of one table of its name, with the table's key.

    It takes the types `external` from producers, and `events` from consumers.
    """

    name: str
    key: str
    external: Sequence[str]
    events: Sequence[str]

    @property
    def constant(self) -> str:
        """The name of the table's constant."""
        return self.name.upper()

    def table_text(self) -> str:
        """Return the statement of the table."""
        return fit(f"{self.constant} = TableProps(", [f'"{self.name}"', f'"{self.key}"'], ")\n")

    def consumer_text(self) -> str:
        """Return the entry of the consumer, as a formatter writes it."""
        lines = ["    ConsumerProps(", f'        "{self.name}",']
        for name, types in (("external", self.external), ("events", self.events)):
            listed = ", ".join(f'"{each}"' for each in types) + ("," if len(types) == 1 else "")
            one = f"        {name}=({listed}),"
            if types and len(one) <= LONGEST:
                lines.append(one)
            elif types:
                each_type = [f'            "{each}",' for each in types]
                lines += [f"        {name}=(", *each_type, "        ),"]
        lines += [f"        tables=({self.constant},),", "    ),"]
        return "".join(f"{line}\n" for line in lines)


def with_line(source: str, line: RegistryLine, file: Path) -> str:
    """Return the source of a registry, whose file errors name, with a further table and consumer.

    Raises:
        OpsError: the source has another form than `CONSUMERS = (…)` with the entries on lines of
            their own, or has the table's constant.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise OpsError(f"{file} is no Python ({error}): correct it") from None
    _check_names(tree, line, file)
    lines = source.splitlines(keepends=True)
    first, last = _consumers(tree, lines, file)
    tables = [
        node.end_lineno or 0
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "TableProps"
    ]
    table_at = max(tables, default=0) or first
    table = line.table_text() + ("" if table_at != first else "\n")
    parts = [*lines[:table_at], table, *lines[table_at:last], line.consumer_text(), *lines[last:]]
    return "".join(parts)


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


def _consumers(tree: ast.Module, lines: Sequence[str], file: Path) -> tuple[int, int]:
    """Return the line before the statement `CONSUMERS = …`, and the one before its bracket."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not (isinstance(target, ast.Name) and target.id == "CONSUMERS"):
            continue
        value = getattr(node, "value", None)
        if isinstance(value, ast.Tuple | ast.List) and node.end_lineno:
            closing = lines[node.end_lineno - 1].rstrip("\r\n")
            previous = lines[node.end_lineno - 2].rstrip()
            if closing in {")", "]"} and previous.endswith((",", "(", "[")):
                return node.lineno - 1, node.end_lineno - 1
        break
    raise OpsError(f"{file} has no tuple CONSUMERS with each entry on lines of its own: {_WANTED}")
