"""Packages of the library and of the command line are layers: each imports those below it."""

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.imports import ROOT, imported, sources, targets, within

ONCE = (
    *(
        "extras",
        "schema",
        "metric_names",
        "source",
        "workflow_names",
        "errors",
        "settings",
    ),
    *("deadline", "sdk", "otlp", "metrics_log", "claim_check"),
    *("events", "effects", "transaction", "registration"),
    *("intake", "commit", "failures", "outbox"),
    *("batch", "consumer", "workflows", "webhooks", "testing"),
)
"""The packages and modules of the library, the lowest layer first."""

COMMANDS = ("status", "trace", "outbox", "send", "effects", "webhooks", "new")
OPS = (
    *("errors", "aws", "terminal", "operator_log", "dedup_records"),
    "dead_letters",
    *(*COMMANDS, "console", "__main__"),
)
"""Those of the operator's command line. The commands do not import each other."""

KIT = (
    *("faults", "report", "subject", "samples"),
    *("boundary", "world", "scenarios", "judgement", "examination", "self_check", "check"),
    *("presentation", "options", "command", "pytest_plugin", "__main__"),
)
"""Those of the conformance kit. It imports nothing else of this project."""


def parts_of(folder: str) -> set[str]:
    paths = ROOT.joinpath(*folder.split(".")).iterdir()
    found = {path.stem for path in paths if path.suffix in {"", ".py"}}
    return found - {"__init__", "__pycache__"}


def test_every_package_has_a_layer() -> None:
    assert parts_of("once") - {"cdk", "ops"} == set(ONCE)
    assert parts_of("once.ops") == set(OPS)
    assert parts_of("conformance.redelivery") - {"controls"} == set(KIT)


@pytest.mark.parametrize("layer", ONCE)
def test_a_layer_of_the_library_imports_those_below_it(layer: str) -> None:
    above = set(ONCE[ONCE.index(layer) + 1 :])
    found = {
        (module, name)
        for module, text in sources("once")
        if module.split(".")[1] == layer
        for name in imported(text, module)
        if name.split(".")[1] in above
    }
    assert found == set()


@pytest.mark.parametrize("layer", KIT)
def test_a_layer_of_the_kit_imports_those_below_it(layer: str) -> None:
    below = {"redelivery." + name for name in KIT[: KIT.index(layer) + 1]}
    found = {
        (module, name)
        for module, text in sources("conformance.redelivery")
        if module.split(".")[2] == layer
        for name in imported(text, module)
        if ".".join(name.split(".")[:2]) not in below
    }
    assert found == set()


def layers_above(source: str, module: str) -> list[str]:
    """Return the layers of the command line that `module` imports and may not import."""
    own = module.split(".")[2]
    below = OPS[: OPS.index(own)] if own in OPS else ()  # `once.ops` itself imports none
    allowed = {own, *below} - ({*COMMANDS} - {own} if own in COMMANDS else set())
    named = (name.split(".") for name in targets(source, module) if within(name, ("once.ops",)))
    return sorted({parts[2] for parts in named if len(parts) > 2} - allowed)


def test_a_layer_of_the_command_line_imports_those_below_it() -> None:
    found = {module: layers_above(text, module) for module, text in sources("once.ops")}
    assert {module: layers for module, layers in found.items() if layers} == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("once.ops.trace.search", "from once.ops.status import app"),
        ("once.ops.trace.search", "from once.ops import outbox"),
        ("once.ops.outbox", "from once.ops.trace.command import app"),
        ("once.ops.__init__", "from once.ops.errors import OpsError"),
        ("once.ops.aws.clients", "import once.ops.dead_letters.commands"),
        ("once.ops.errors", "from .terminal import console"),
    ],
)
def test_an_import_of_a_layer_above_is_found(module: str, source: str) -> None:
    assert len(layers_above(source, module)) == 1


def cycle(modules: dict[str, str]) -> list[str]:
    """Return modules that import one another in a cycle; empty without a cycle."""

    def module_of(name: str) -> str | None:
        parts = name.split(".")
        prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        return next((prefix for prefix in prefixes if prefix in modules), None)

    graph = {
        module: {module_of(name) for name in targets(text, module)} - {module, None}
        for module, text in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", ["once.ops", "demo"])
def test_modules_import_in_no_cycle(package: str) -> None:
    assert cycle({m.removesuffix(".__init__"): text for m, text in sources(package)}) == []


def test_a_cycle_is_found() -> None:
    modules = {
        "demo.shop": "from demo.kills import kill_processes",
        "demo.kills": "def late():\n    from demo import report",
        "demo.report": "from demo.shop import Shop",
    }
    assert set(cycle(modules)) == set(modules)
    del modules["demo.report"]
    assert cycle(modules) == []
