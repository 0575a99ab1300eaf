"""Imports run one way: from the demo to the stacks, to the constructs, to the library."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.imports import ROOT, imported, sources, within

SHARED = ("once.schema", "once.settings")
MAY_IMPORT = {
    "once.cdk.functions": ("once",),  # runs in Lambda: the constructs package it
    "once.cdk": ("once.cdk", *SHARED),
    "once.ops": ("once.ops", "once"),
    "once": ("once",),
    "functions": ("once",),
    "stacks": ("stacks", "once.cdk"),
    "emulator": ("emulator",),
    "demo.audit": ("demo.audit",),  # it must not agree with anybody about anything
    "demo": ("demo", "emulator", "stacks", "once"),
    "docs": ("docs",),  # its tools read sources and templates, and import neither
}
"""The arrows that are allowed, by folder; the first that holds a module counts."""

TOOLS = ("once.cdk", "once.ops")
MAY_NOT_IMPORT = {
    "once": TOOLS,
    "once.cdk.functions": TOOLS,
    "functions": TOOLS,
    "once.ops": ("once.cdk",),
}
"""What runs in Lambda is packaged without constructs and operator's commands."""


ONCE = (
    *("schema", "error_text", "errors", "disposition", "settings", "deadline", "sdk"),
    *("events", "handlers", "intake", "commit", "effects", "failures", "outbox"),
    *("runtime", "batch", "composition", "consumer", "testing"),
)
"""The rooms of the library, from the ground up: each may import those before it."""


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


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    found = [arrow for module, text in sources(package) for arrow in wrong_arrows(text, module)]
    assert found == []


def test_every_room_of_the_library_has_its_place() -> None:
    paths = [path for path in (ROOT / "once").iterdir() if path.suffix in {"", ".py"}]
    rooms = {path.stem for path in paths if not path.name.startswith("__")}
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
        ("once.cdk._queues", "from once.ops import status"),
        ("once.cdk._queues", "from once.commit import committer"),
        ("emulator.cdk_cli", "from demo import run"),
        ("stacks.service", "from demo import run"),
        ("stacks.service", "from once import schema"),
        ("once.cdk.functions.outbox_relay.handler", "from once.cdk import ConsumerProps"),
        ("once.commit.committer", "from once.cdk.props import TableProps"),
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
        ("stacks.service", "from once.cdk import TableProps\nimport aws_cdk"),
        ("once.cdk.functions.outbox_relay.handler", "from once.outbox import stream_relay"),
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
