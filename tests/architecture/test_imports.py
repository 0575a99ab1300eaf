"""Imports run one way: from the demo to the stacks, to the constructs, to the library."""

import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

from tests.architecture.imports import ROOT, imported, sources, within

SHARED = (
    *(
        "once.extras",
        "once.schema",
        "once.metric_names",
        "once.settings",
        "once.source",
        "once.workflow_names",
    ),
    *("once.webhooks.endpoint", "once.webhooks.settings"),
    "once.webhooks.capture",
)
MAY_IMPORT = {
    "once.cdk.functions": ("once",),  # runs in Lambda: the constructs package it
    "once.cdk": ("once.cdk", "once._homes", *SHARED),
    "once.ops": ("once.ops", "once"),
    "once": ("once",),
    "functions": ("once",),
    "stacks": ("stacks", "once.cdk"),
    "emulator.local": ("emulator", "once.ops"),  # a plugin of the command line
    "emulator": ("emulator",),
    "demo.audit": ("demo.audit",),  # an audit that shares code with the shop shares its mistakes
    "demo": ("demo", "emulator", "stacks", "once"),
    "conformance.redelivery": ("redelivery",),  # for consumers of any kind
    # An approach reads like the article it comes from: the shared work, and nothing else of ours.
    "lab.approaches.once": ("lab.approaches.checkout", "once"),
    "lab.approaches": ("lab.approaches.checkout",),
    "lab.load": ("lab", "redelivery", "once", "emulator"),
    "lab": ("lab", "redelivery", "once"),
    "docs.site": ("docs.site", "once", "redelivery"),  # its reference comes from the objects
    "docs": ("docs",),  # its tools read sources and templates as text
}
"""The allowed imports by folder; the first folder that holds a module counts."""

TOOLS = ("once.cdk", "once.ops")
MAY_NOT_IMPORT = {
    "once": TOOLS,
    "once.cdk.functions": TOOLS,
    "functions": TOOLS,
    "once.ops": ("once.cdk",),
    "emulator": ("emulator.local",),
}
"""Code that runs in Lambda is packaged without the constructs and the operator's commands."""

FORBIDDEN = {
    "functions.orders.handler": [
        "import once.cdk.props",
        "from functions.inventory import handler",
        "from functions import inventory",
        "from ..inventory.handler import reserve",
    ],
    "stacks.consumers": [
        "import once",
        "from once import Consumer",
        "from once.consumer import Consumer",
        "def late():\n    from once import commit",
        "from functions.orders import handler",
        "from demo import run",
        "from once import schema",
    ],
    "once.ops.status": ["from stacks import consumers", "from once.cdk import props"],
    "once.cdk._queues": ["from once.ops import status", "from once.commit import committer"],
    "emulator.cdk_cli": [
        "from demo import run",
        "from emulator.local.background import HOME",
        "from once.ops.errors import OpsError",
    ],
    "emulator.local.command": ["from demo import run", "from once.consumer import Consumer"],
    "once.cdk.functions.outbox_relay.handler": ["from once.cdk import ConsumerProps"],
    "once.commit.committer": [
        "from once.cdk.props import TableProps",
        "from importlib import import_module\nimport_module('functions.orders')",
        "import importlib\nimportlib.import_module('tests.stacks')",
        "if TYPE_CHECKING:\n    from emulator.embedded_aws import EmbeddedAws",
    ],
    "demo.audit.orders": [
        "from once.schema import Record",
        "from emulator import embedded_aws",
        "from .. import run",
    ],
    "conformance.redelivery.check": [
        "import once",
        "def late():\n    from once.testing import InMemory",
        "from lab.subjects import subject",
        "from tests.in_memory import wait",
    ],
    "lab.approaches.none": ["from once import Consumer", "from lab.approaches.none import process"],
    "lab.subjects": [
        "from demo import run",
        "from tests.in_memory import wait",
        "from emulator import embedded_aws",  # the load test alone needs it
    ],
    "lab.load.stage": ["from demo import run"],
    "demo.audit.__init__": ["from demo.payment_sandbox import PaymentFault"],
}
ALLOWED = {
    "functions.orders.handler": [
        "from once import Consumer\nfrom once.events.identity import Key",
        "from functions.orders.models import Line",
        "from .models import Line\nimport json",
    ],
    "stacks.consumers": ["from once.cdk import TableProps\nimport aws_cdk"],
    "once.cdk.functions.outbox_relay.handler": ["from once.outbox import relay"],
    "conformance.redelivery.check": ["from redelivery.report import Report\nimport boto3"],
    "lab.approaches.none": ["from lab.approaches.checkout import charge"],
    "lab.subjects": ["from redelivery import Subject\nfrom once.settings import Settings"],
    "lab.load.stage": ["from emulator import embedded_aws"],
    "demo.audit.orders": ["from demo.audit.evidence import Evidence\nfrom . import findings"],
}


def cases(statements: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(module, source) for module, texts in statements.items() for source in texts]


def forbidden_imports(source: str, module: str) -> list[str]:
    package = next(name for name in MAY_IMPORT if f"{module}.".startswith(f"{name}."))
    allowed = MAY_IMPORT[package]
    if package == "functions":
        allowed = (*allowed, ".".join(module.split(".")[:2]))  # the function's own folder
    return [
        f"{module} imports {name}; it may import {', '.join(allowed)}"
        for name in imported(source, module)
        if not within(name, allowed) or within(name, MAY_NOT_IMPORT.get(package, ()))
    ]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    modules = dict(sources(package))
    assert [line for name in modules for line in forbidden_imports(modules[name], name)] == []


@pytest.mark.parametrize(("module", "source"), cases(FORBIDDEN))
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    (found,) = forbidden_imports(source, module)
    assert found.startswith(f"{module} imports ")


@pytest.mark.parametrize(("module", "source"), cases(ALLOWED))
def test_an_allowed_import_is_not_reported(module: str, source: str) -> None:
    assert forbidden_imports(source, module) == []


@pytest.mark.parametrize(
    ("package", "modules"),
    [
        ("functions", {"functions.orders.handler", "functions.inventory.handler"}),
        ("demo.audit", {"demo.audit.__init__", "demo.audit.orders"}),
    ],
)
def test_sources_include_modules_of_subfolders(package: str, modules: set[str]) -> None:
    assert {module for module, _ in sources(package)} >= modules


def third_party_after(statement: str) -> set[str]:
    code = (
        "import sys; before = set(sys.modules); "
        f"sys.path.insert(0, {str(ROOT)!r}); {statement}; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(*(new - sys.stdlib_module_names - {'once'}))"
    )
    command = [sys.executable, "-I", "-c", code]
    return set(subprocess.check_output(command, text=True).split())


def test_schema_and_settings_need_the_standard_library_only() -> None:
    modules = ", ".join(SHARED)
    assert third_party_after(f"import {modules}") == set()
    assert "msgspec" in third_party_after("import msgspec")
