"""The files of a new function with commands, and the registry with its line."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from once.ops.errors import OpsError
from once.ops.new.consumer_files import (
    LONGEST,
    Line,
    ProjectFiles,
    check_line_name,
    class_name,
    fit,
    once_is_own,
    render,
    singular,
    with_line,
)
from once.ops.new.project import Project

_WANTED = """\
add

COMMANDS = (
)

and give commands=COMMANDS to the Registry"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine(Line):
    """A function with one command."""

    declared: ClassVar = "COMMANDS"
    template: ClassVar = "command/registry_line.jinja"
    imported: ClassVar = ("Auth", "CommandProps", "TableProps")

    @property
    def key(self) -> str:
        return f"{singular(self.name)}_id"

    @property
    def function(self) -> str:
        return f"create_{singular(self.name)}"

    @property
    def command(self) -> str:
        return self.function.replace("_", "-")

    @property
    def model(self) -> str:
        return class_name(self.function)

    @property
    def route(self) -> str:
        return f"POST /{self.name.replace('_', '-')}"

    @property
    def sample(self) -> dict[str, Any]:
        return {self.key: f"sample-{singular(self.name)}", "amount": 2}


def command_files(project: Project, name: str, registry: str) -> ProjectFiles:
    """Return the files of a function with one command, and the registry's file with its line."""
    check_line_name(project, name)
    line, folder = CommandLine(name=name), project.functions / name
    values = {"line": line, "once_is_own": once_is_own(project)}
    files = {folder / "handler.py": render("command/handler.py.jinja", **values)}
    if any(project.functions.glob("*/__init__.py")):
        files[folder / "__init__.py"] = render("command/__init__.py.jinja", **values)
    test = project.tests / f"test_{name}.py"
    files[test] = render("command/test_handler.py.jinja", **values)
    data = json.dumps(line.sample)
    return ProjectFiles(
        files,
        with_commands(registry, line, project.registry_file),
        [
            f"once send --route '{line.route}' --sign --data '{data}'",
            f"once local logs -f {name}",
        ],
    )


def with_commands(source: str, line: CommandLine, file: Path) -> str:
    """Return the source of a registry with a further function with commands, and its table.

    It gets the tuple COMMANDS and the names to import, unless it has them.
    """
    return with_line(_with_imports(_with_tuple(source, file), line), line, file)


def _with_tuple(source: str, file: Path) -> str:
    """Return a registry's source with a tuple COMMANDS that its Registry is given."""
    tree = _parsed(source, file)
    assigned = {
        target.id: node
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if CommandLine.declared in assigned:
        return source
    calls = [
        node.value
        for node in assigned.values()
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "Registry"
    ]
    if len(calls) != 1 or "CONSUMERS" not in assigned:
        raise OpsError(f"{file} has no tuple COMMANDS: {_WANTED}")
    lines, [call] = source.splitlines(keepends=True), calls
    last = call.end_lineno or 0
    if call.lineno == last:
        given = [ast.unparse(each) for each in call.args]
        given += [f"{each.arg}={ast.unparse(each.value)}" for each in call.keywords]
        head = f"{lines[last - 1][: call.func.end_col_offset]}("
        lines[last - 1] = f"{fit(head, [*given, 'commands=COMMANDS'], ')')}\n"
    else:
        lines.insert(last - 1, "    commands=COMMANDS,\n")
    lines.insert(assigned["CONSUMERS"].end_lineno or 0, "\nCOMMANDS = (\n)\n")
    return "".join(lines)


def _with_imports(source: str, line: CommandLine) -> str:
    """Return a source whose import from the constructs has the names that a line needs."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module == "once.cdk":
            names = {ast.unparse(alias) for alias in node.names}
            if names.issuperset(line.imported):
                break
            every = sorted({*names, *line.imported})
            text = f"from once.cdk import {', '.join(every)}\n"
            if len(text) > LONGEST + 1:
                listed = "".join(f"    {name},\n" for name in every)
                text = f"from once.cdk import (\n{listed})\n"
            lines = source.splitlines(keepends=True)
            lines[node.lineno - 1 : node.end_lineno] = [text]
            return "".join(lines)
    return source


def _parsed(source: str, file: Path) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise OpsError(f"{file} is no Python ({error}): correct it") from None
