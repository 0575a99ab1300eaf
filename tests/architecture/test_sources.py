"""The sources: private names stay private, public ones stay, and no text names the shop."""

import ast
import importlib
import re

import pytest

from tests.architecture.imports import ROOT, sources, targets

PACKAGES = ("once", "functions", "stacks", "demo", "emulator", "benchmarks")
"""The packages that keep the rule. Tests and `proof` may import private names."""


def foreign_privates(source: str, module: str) -> list[str]:
    """Return the private modules and names of other packages that `module` imports."""
    return sorted(
        name
        for name in targets(source, module)
        if (owner := _owner(name)) and not f"{module}.".startswith(f"{owner}.")
    )


def _owner(name: str) -> str | None:
    """Return the package that a private name belongs to; None for a public name."""
    parts = name.split(".")
    if not ROOT.joinpath(parts[0]).is_dir():
        return None  # of another project
    private = [n for n, part in enumerate(parts) if part[0] == "_" and not part.startswith("__")]
    if not private:
        return None
    holder = parts[: private[0]]
    return ".".join(holder if ROOT.joinpath(*holder).is_dir() else holder[:-1])


@pytest.mark.parametrize("package", PACKAGES)
def test_private_modules_and_names_stay_in_their_package(package: str) -> None:
    found = {module: foreign_privates(text, module) for module, text in sources(package)}
    assert {module: names for module, names in found.items() if names} == {}


# The library serves any app: its texts name no file or command of the example shop.


SHOPS = re.compile(
    r"\b(?:stacks|functions|demo|emulator)(?:/|\.\w)|\b(?:consumers\.py|app\.py|cdk\.json|Makefile)\b"
    r"|requirements-dev|\bmake (?:setup|demo|test|lint|unit|synth|bootstrap|deploy|lock)\b|the shop"
)
"""`docs/runbook.md` may be named: it is a page of the library."""

OWN = {"functions/__init__.py", "functions/{}/{}", "cdk.json.jinja"}
"""Paths inside a function's package and of a new service, which are the library's own."""


def texts(source: str) -> list[str]:
    """Return every string of a module, docstrings included, with `{}` for formatted values."""
    tree = ast.parse(source)
    parts = {id(part) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values]
            found.append("".join(pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [] if id(node) in parts else [node.value]
    return found


def of_the_shop(source: str) -> list[str]:
    return [text for text in texts(source) if SHOPS.search(text) and text not in OWN]


def test_no_text_of_the_library_names_a_file_of_the_shop() -> None:
    found = {module: of_the_shop(text) for module, text in sources("once")}
    assert {module: texts for module, texts in found.items() if texts} == {}


# Public names: one that is taken away is a change for users of the library.


NAMES = {
    "once": "Answer Call CloudEvent Commands Consumer FormerRecords Key KeySpent NotDone "
    "NotPublished PermanentError Policy Problem Producer Refusal Reply RetryableError S3Object "
    "Scope Source Step Transaction absent durable_function present state_machine",
    "once.cdk": "Auth CaptureTable ClaimBucket CommandFunction CommandProps ConsumerProps "
    "CustomerKey CustomerKeys DashboardParts Dedup DedupTable DeployedNames DeploymentConfig "
    "DurableFunctionProps Endpoint ExistingQueue ExistingTable FurtherStack GITHUB "
    "GlobalTables IdempotentConsumer Network OperatorLog OperatorPolicies OutboxRelay Pollers "
    "Registry RelayFailures RetainedTable Rollout SHOPIFY SLACK STANDARD STRIPE ScheduleGroup "
    "ServiceStack Source StackOutput Stage StateMachineProps StateStack SynthError TableProps "
    "Topics UnroutedEvents WarmThroughput WebhookFunction WebhookProps acknowledge_finding "
    "add_shared_alarms assemble consumer_set_faults deployment_faults event_sources "
    "event_types_output hmac_profile later_types make_alarm_topic make_dashboard "
    "missing_name_faults notify output_key published_types run_app stack_size_faults synthesize "
    "unmanaged_mapping_faults",
    "once.testing": "FakeAws FakeContext Fault answer_lost cancelled cloud_event inject "
    "never_sent refused",
}


def seen_by_type_checkers(package: str) -> list[str]:
    """Return the names that a package imports as themselves."""
    folder = ROOT.joinpath(*package.split("."))
    return [
        alias.name
        for path in (folder / "__init__.py", *folder.glob("_*s.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]


@pytest.mark.parametrize("package", NAMES)
def test_a_package_exports_exactly_its_public_names(package: str) -> None:
    module, names = importlib.import_module(package), NAMES[package].split()
    assert sorted(seen_by_type_checkers(package)) == sorted(module.__all__) == names
    assert all(getattr(module, name) is not None for name in names)
    assert not hasattr(module, "Unknown")


def test_the_shop_uses_the_constructs_by_their_public_names() -> None:
    files = [*(ROOT / "stacks").glob("*.py"), ROOT / "app.py"]
    found = {
        node.module
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("once")
    }
    assert found == {"once.cdk"}
