"""The rooms of the operator's command line import one another in one direction."""

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.imports import ROOT, sources, targets, within

COMMANDS = ("status", "dlq", "trace", "outbox")
OPS = ("errors", "aws", "terminal", "dedup_records", "dead_letters", *COMMANDS, "__main__")
"""The rooms of the operator's command line, from the ground up: each may import those before it.

The commands import none of each other.
"""


def wrong_room_arrows(source: str, module: str) -> list[str]:
    """Return the rooms of the command line that `module` imports and may not import."""
    own = module.split(".")[2]
    below = OPS[: OPS.index(own)] if own in OPS else ()  # the package itself imports none
    allowed = {own, *below} - ({*COMMANDS} - {own} if own in COMMANDS else set())
    named = (name.split(".") for name in targets(source, module) if within(name, ("once.ops",)))
    rooms = {parts[2] for parts in named if len(parts) > 2}
    return sorted(rooms - allowed)


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


@pytest.mark.parametrize("package", ["once.ops", "demo"])
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
