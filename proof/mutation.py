"""Mutation testing: mutmut makes small faults in the code, and each must fail a unit test.

It works in a copy of the project: linters, and tests that walk through the project, would find its
folder of mutated code. A group of modules is tested with the tests of its own subject.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console

from proof.report import ROOT, write

GOAL = 0.95
"""The share of each group's mutants that tests must kill."""

_KILLED = ("killed", "timeout")
_NOT_COPIED = (".*", "__pycache__", "build", "cdk.out", "mutants", "node_modules", "reports")
_IMPORTED = ("conftest.py", "demo", "emulator", "events", "functions", "stacks")
_console = Console(markup=False, highlight=False, soft_wrap=True)
_TESTER = ROOT / "proof" / "forked_mutants.py"
# Without these two, pytest collects garbage and writes files for longer than most tests take.
_PYTEST = ("-p", "no:unraisableexception", "-p", "no:cacheprovider")

Statuses = Mapping[str, str]
"""mutmut's status of each mutant, by the mutant's name."""


class NotMeasured(Exception):
    """mutmut failed, or mutated other modules than those of the group."""


class Measured(NamedTuple):
    """The status of each mutant of a group, and the changes of those that survive."""

    statuses: Statuses
    changes: Mapping[str, str]


class Group(NamedTuple):
    """Modules of `once`, and the folders and files of their unit tests."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "commit": Group(
        (
            *("commit.committer", "commit.dedup_record", "commit.item_size", "commit.result"),
            "runtime.encoded_entries",
        ),
        ("golden/test_records.py", "once/commit", "once/webhooks/test_ingress.py"),
    ),
    "item dedup": Group(("commit.item_dedup",), ("once/commit/test_item_dedup.py",)),
    "identity": Group(("events.identity",), ("once/events/test_identity.py",)),
    "batch": Group(
        ("batch._ready_queue", "batch._report", "batch.isolation", "batch.message"),
        (
            *("once/batch", "once/effects", "once/events/test_claim_check.py"),
            "once/intake/test_envelopes.py",
        ),
    ),
    "ledger": Group(
        ("effects.ledger", "effects.executor", "effects.concurrent_calls"),
        (
            *("golden/test_records.py", "once/batch/test_concurrent_effects.py"),
            *("once/batch/test_hooks.py", "once/effects"),
        ),
    ),
    "relay": Group(
        ("outbox.relay", "outbox.publisher", "outbox.due_events", "events.outgoing"),
        (
            *("golden/test_events.py", "once/batch/test_report.py"),
            *("once/events/test_claim_check.py", "once/events/test_outgoing.py", "once/outbox"),
            "once/test_transaction.py",
        ),
    ),
    "webhooks": Group(
        ("webhooks.captured_webhook", "webhooks.ingress", "webhooks.signature", "webhooks.webhook"),
        ("golden/test_captures.py", "once/webhooks"),
    ),
    "commands": Group(
        (
            *("commands.answer", "commands.handlers", "commands.http_door", "commands.routes"),
            *("commands.runner", "commands.scope"),
        ),
        ("once/commands",),
    ),
    "producer": Group(("producer",), ("once/test_producer.py",)),
    "failures": Group(
        (
            *("failures.circuit_breaker", "failures.quarantine", "failures.failure_handler"),
            "batch.processor",
        ),
        ("once/batch", "once/effects", "once/failures"),
    ),
}


def run(children: int = 1) -> int:
    """Test every mutant, and write `reports/mutants.json`.

    Args:
        children: number of mutants that are tested at a time.

    Returns:
        The exit status: 0 if every group reaches the goal.

    Raises:
        NotMeasured: there are no figures.
    """
    statuses: dict[str, Statuses] = {}
    survivors: dict[str, str] = {}
    with TemporaryDirectory(prefix="once-mutants-") as folder:
        copy = Path(folder) / ROOT.name
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        for name, group in GROUPS.items():
            configure(copy, group)
            statuses[name], changes = run_mutmut(copy, children)
            survivors |= changes
            shutil.rmtree(copy / "mutants")
            _print(name, statuses[name], changes)
    report = figures(statuses, survivors)
    write("mutants", report)
    return int(any(group["share"] < GOAL for group in report["groups"].values()))


def configure(project: Path, group: Group) -> None:
    """Write mutmut's settings for a group into a project."""
    values = {
        "source_paths": ("once",),
        "only_mutate": [f"once/{m.replace('.', '/')}.py" for m in group.modules],
        "also_copy": _IMPORTED,
        "pytest_add_cli_args": _PYTEST,
        "pytest_add_cli_args_test_selection": [f"tests/{test}" for test in group.tests],
    }
    settings = ConfigParser()
    settings["mutmut"] = {name: "\n".join(["", *lines]) for name, lines in values.items()}
    with (project / "setup.cfg").open("w") as file:
        settings.write(file)


def run_mutmut(project: Path, children: int = 1) -> Measured:
    """Create and test the mutants of a project that has mutmut's settings.

    Raises:
        NotMeasured: it failed, and has printed the reason.
    """
    command = [sys.executable, "-P", str(_TESTER), str(children)]
    if subprocess.run(command, cwd=project, check=False).returncode != 0:  # noqa: S603
        raise NotMeasured("no mutant was tested, as it says above: the tests must pass before")
    return Measured(**json.loads((project / "mutants.json").read_text()))


def surviving(statuses: Statuses) -> list[str]:
    """Return the mutants that were not killed, including those without a test."""
    return [mutant for mutant, status in statuses.items() if status not in _KILLED]


def figures(statuses: Mapping[str, Statuses], survivors: Mapping[str, str]) -> dict[str, Any]:
    """Return the figures of the report.

    Args:
        statuses: by the name of the group.
        survivors: the change of each surviving mutant.

    Raises:
        NotMeasured: a group's mutants are not of its modules, or a module has none.
    """
    every = {mutant: status for group in statuses.values() for mutant, status in group.items()}
    by_module: dict[str, dict[str, str]] = {}
    for group, mutants in statuses.items():
        for mutant, status in mutants.items():
            by_module.setdefault(_module_of(mutant), {})[mutant] = status
        if odd := set(GROUPS[group].modules) ^ set(map(_module_of, mutants)):
            raise NotMeasured(f"not mutated, or not of {group}: {', '.join(sorted(odd))}")
    return {
        "modules": {module: _tally(found) for module, found in by_module.items()},
        "groups": {group: _tally(found) for group, found in statuses.items()},
        **_tally(every),
        "survived": dict(survivors),
    }


def _module_of(mutant: str) -> str:
    """Return `commit.committer` for `once.commit.committer.x_judge__mutmut_1`."""
    return mutant.removeprefix("once.").rpartition(".")[0]


def _tally(statuses: Statuses) -> dict[str, Any]:
    killed = len(statuses) - len(surviving(statuses))
    return {"mutants": len(statuses), "killed": killed, "share": killed / len(statuses)}


def _print(name: str, statuses: Statuses, changes: Mapping[str, str]) -> None:
    for mutant, change in changes.items():
        _console.print(f"\n{mutant}\n{change}")
    tally = _tally(statuses)
    share = f"{tally['share']:.1%}, at least {GOAL:.0%} wanted"
    _console.print(f"{name}: {tally['killed']} of {tally['mutants']} killed, {share}")
