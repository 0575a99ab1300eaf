"""Imports run one way: from the demo to the stacks, to the constructs, to the library."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from once.cdk.props import ROOT

OURS = frozenset(
    {
        "once",
        "functions",
        "stacks",
        "demo",
        "emulator",
        "lab",
        "benchmarks",
        "proof",
        "tests",
        "app",
    }
)
SHARED = ("once.schema", "once.settings")
MAY_IMPORT = {
    "once.cdk": ("once.cdk", *SHARED),
    "once.ops": ("once.ops", "once"),
    "once": ("once",),
    "functions": ("once",),
    "stacks": ("stacks", "once.cdk", *SHARED),
    "emulator": ("emulator",),
    "demo.audit": ("demo.audit",),  # it must not agree with anybody about anything
    "demo": ("demo", "emulator", "stacks", "once"),
}
"""The arrows that are allowed, by folder; the first that holds a module counts."""

TOOLS = ("once.cdk", "once.ops")
MAY_NOT_IMPORT = {"once": TOOLS, "functions": TOOLS, "once.ops": ("once.cdk",)}
"""What runs in Lambda is packaged without constructs and operator's commands."""


ONCE = (
    *("schema", "error_text", "errors", "fate", "settings", "deadline", "sdk"),
    *("events", "handlers", "intake", "commit", "effects", "failures", "outbox"),
    *("runtime", "batch", "consumer", "testing"),
)
"""The rooms of the library, from the ground up: each may import those before it."""


def imported(source: str, module: str) -> Iterator[str]:
    """Yield the modules of this project that the source of `module` imports.

    What comes out of a whole package counts by its name there: `from once import Consumer` is
    `once.Consumer`.
    """
    for node in ast.walk(ast.parse(source)):
        yield from (name for name in _named_by(node, module) if name.split(".")[0] in OURS)


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


def wrong_arrows(source: str, module: str) -> list[str]:
    package = next(name for name in MAY_IMPORT if f"{module}.".startswith(f"{name}."))
    allowed = MAY_IMPORT[package]
    if package == "functions":
        allowed = (*allowed, ".".join(module.split(".")[:2]))  # its own folder, and nobody else's
    return [
        f"{module} imports {name}; it may import {', '.join(allowed)}"
        for name in imported(source, module)
        if not within(name, allowed) or within(name, MAY_NOT_IMPORT.get(package, ()))
    ]


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def sources(package: str) -> Iterator[tuple[str, str]]:
    for path in ROOT.joinpath(*package.split(".")).rglob("*.py"):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    found = [arrow for module, text in sources(package) for arrow in wrong_arrows(text, module)]
    assert found == []


def test_every_room_of_the_library_has_its_place() -> None:
    rooms = {path.stem for path in (ROOT / "once").iterdir() if not path.name.startswith("__")}
    assert rooms - {"cdk", "ops"} == set(ONCE)


@pytest.mark.parametrize("room", ONCE)
def test_rooms_of_the_library_import_those_below_them(room: str) -> None:
    above = set(ONCE[ONCE.index(room) + 1 :])
    found = {
        (module, name)
        for module, text in sources("once")
        if module.split(".")[1] == room
        for name in imported(text, module)
        if name.split(".")[1] in above
    }
    assert found == set()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("functions.orders.handler", "import once.cdk.props"),
        ("functions.orders.handler", "from functions.inventory import handler"),
        ("functions.orders.handler", "from functions import inventory"),
        ("functions.orders.handler", "from ..inventory.handler import reserve"),
        ("stacks.service", "import once"),
        ("stacks.service", "from once import Consumer"),
        ("stacks.service", "from once.consumer import Consumer"),
        ("stacks.service", "def late():\n    from once import commit"),
        ("stacks.service", "from functions.orders import handler"),
        ("once.ops.status", "from stacks import consumers"),
        ("once.ops.status", "from once.cdk import props"),
        ("once.cdk.queues", "from once.ops import status"),
        ("once.cdk.queues", "from once.commit import committer"),
        ("emulator.cdk_cli", "from demo import run"),
        ("stacks.service", "from demo import run"),
        ("once.commit.committer", "from once.cdk.props import Table"),
        (
            "once.commit.committer",
            "from importlib import import_module\nimport_module('functions.orders')",
        ),
        ("once.commit.committer", "import importlib\nimportlib.import_module('tests.stacks')"),
        (
            "once.commit.committer",
            "if TYPE_CHECKING:\n    from emulator.embedded_aws import EmbeddedAws",
        ),
        ("demo.audit.mail", "from once.schema import Record"),
        ("demo.audit.mail", "from emulator import embedded_aws"),
        ("demo.audit.mail", "from .. import run"),
        ("demo.audit.__init__", "from demo.payment_sandbox import PaymentFault"),
    ],
)
def test_a_wrong_arrow_is_found(module: str, source: str) -> None:
    (arrow,) = wrong_arrows(source, module)
    assert arrow.startswith(f"{module} imports ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "functions.orders.handler",
            "from once import Consumer\nfrom once.events.dedup_key import Key",
        ),
        ("functions.orders.handler", "from functions.orders.models import Line"),
        ("functions.orders.handler", "from .models import Line\nimport json"),
        ("stacks.service", "from once import schema\nfrom once.settings import Settings"),
        ("stacks.service", "from once.cdk.props import Table\nimport aws_cdk"),
        ("demo.audit.mail", "from demo.audit.evidence import Evidence\nfrom . import findings"),
    ],
)
def test_a_right_arrow_is_left_alone(module: str, source: str) -> None:
    assert wrong_arrows(source, module) == []


def third_party_after(statement: str) -> set[str]:
    code = (
        "import sys; before = set(sys.modules); "
        f"sys.path.insert(0, {str(ROOT)!r}); {statement}; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(*(new - sys.stdlib_module_names - {'once'}))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_contract_and_settings_need_the_standard_library_only() -> None:
    assert third_party_after("import once.schema, once.settings") == set()


def test_a_third_party_module_is_seen() -> None:
    assert "msgspec" in third_party_after("import msgspec")


def test_every_folder_is_looked_at() -> None:
    assert {module for module, _ in sources("functions")} >= {
        "functions.orders.handler",
        "functions.inventory.handler",
    }
    assert {module for module, _ in sources("demo.audit")} >= {
        "demo.audit.__init__",
        "demo.audit.mail",
    }
    assert Path(__file__).is_relative_to(ROOT)


COMMANDS = ("status", "dlq", "trace", "outbox")
OPS = ("errors", "aws", "terminal", "dedup_records", "dead_letters", *COMMANDS, "__main__")
"""The rooms of the operator's command line, from the ground up: each may import those before it.

The commands import none of each other.
"""

CLOSED = ("once.ops", "demo")
"""Packages without circles of imports, and with private modules and names."""


def targets(source: str, module: str) -> set[str]:
    """Return the full names that a module imports, such as `once.ops.status.app`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=above, names=names, level=level):
                parts = module.split(".")[:-level] if level else []
                base = ".".join([*parts, *([above] if above else [])])
                found.update(f"{base}.{alias.name}" for alias in names)
    return {name for name in found if name.split(".")[0] in OURS}


def wrong_room_arrows(source: str, module: str) -> list[str]:
    """Return the rooms of the command line that `module` imports and may not import."""
    own = module.split(".")[2]
    below = OPS[: OPS.index(own)] if own in OPS else ()  # the package itself imports none
    allowed = {own, *below} - ({*COMMANDS} - {own} if own in COMMANDS else set())
    rooms = {name.split(".")[2] for name in targets(source, module) if within(name, ("once.ops",))}
    return sorted(rooms - allowed)


def foreign_privates(source: str, module: str) -> list[str]:
    """Return the underscored modules and names of other packages that `module` imports."""
    return sorted(
        name
        for name in targets(source, module)
        if within(name, CLOSED) and (owner := _owner(name)) and not within(module, (owner,))
    )


def _owner(name: str) -> str | None:
    """Return the package that a private name belongs to; None for a public name."""
    parts = name.split(".")
    private = [n for n, part in enumerate(parts) if part[0] == "_" and not part.startswith("__")]
    if not private:
        return None
    holder = parts[: private[0]]
    return ".".join(holder if ROOT.joinpath(*holder).is_dir() else holder[:-1])


def circle(modules: dict[str, str]) -> list[str]:
    """Return modules that import one another in a circle; none where there is no circle."""
    graph = {
        module: {_module_of(name, modules) for name in targets(text, module)} - {module, None}
        for module, text in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _module_of(name: str, modules: dict[str, str]) -> str | None:
    parts = name.split(".")
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in modules), None)


def _named_as_imported(package: str) -> dict[str, str]:
    return {module.removesuffix(".__init__"): text for module, text in sources(package)}


def test_every_room_of_the_command_line_has_its_place() -> None:
    folder = ROOT / "once" / "ops"
    rooms = {path.stem for path in folder.iterdir()} - {"__init__", "__pycache__"}
    assert rooms == set(OPS)


def test_rooms_of_the_command_line_import_those_below_them() -> None:
    found = {module: wrong_room_arrows(text, module) for module, text in sources("once.ops")}
    assert {module: rooms for module, rooms in found.items() if rooms} == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("once.ops.trace._view", "from once.ops.status import app"),
        ("once.ops.trace._view", "from once.ops import outbox"),
        ("once.ops.outbox.command", "from once.ops.trace.command import app"),
        ("once.ops.__init__", "from once.ops.errors import OpsError"),
        ("once.ops.aws.clients", "import once.ops.dlq.command"),
        ("once.ops.errors", "from .terminal.console import console"),
    ],
)
def test_an_arrow_to_a_room_above_is_found(module: str, source: str) -> None:
    assert len(wrong_room_arrows(source, module)) == 1


@pytest.mark.parametrize("package", ["once", "functions", "stacks", "demo", "emulator", "proof"])
def test_private_modules_and_names_stay_in_their_package(package: str) -> None:
    found = {module: foreign_privates(text, module) for module, text in sources(package)}
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("module", "source", "private"),
    [
        ("once.ops.trace.command", "from once.ops.dlq._edit import edit_letter", True),
        ("once.ops.trace.command", "from once.ops.dlq import _edit", True),
        ("once.ops.trace.command", "from once.ops.dead_letters.letter import _original", True),
        ("proof.shop.operator", "import once.ops.dlq._edit", True),
        ("once.ops.dlq.command", "from once.ops.dlq._edit import edit_letter", False),
        ("once.ops.dlq.command", "from once.ops.dlq._edit import _in_editor", False),
        ("once.ops.trace.command", "from once.ops.dead_letters.letter import Letter", False),
    ],
)
def test_an_import_of_a_private_name_is_found(module: str, source: str, *, private: bool) -> None:
    assert bool(foreign_privates(source, module)) is private


@pytest.mark.parametrize("package", CLOSED)
def test_modules_import_in_no_circle(package: str) -> None:
    assert circle(_named_as_imported(package)) == []


def test_a_circle_is_found() -> None:
    modules = {
        "demo.run": "from demo.console import step",
        "demo.console": "def late():\n    from demo import report",
        "demo.report": "from demo.run import send_traffic",
    }
    assert set(circle(modules)) == set(modules)
    assert circle({name: text for name, text in modules.items() if name != "demo.report"}) == []
