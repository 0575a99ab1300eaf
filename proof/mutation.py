"""Mutation: each mutant is one small fault put into the code, which some unit test must notice.

mutmut makes them, and runs the tests against each. It works in a copy of the project in a temporary
directory: the folder of mutated code that it makes would otherwise be found by linters, and by
tests that walk through the project. Each group of modules is tried with the tests that are about
it: all tests for every mutant would take hours.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from proof.report import ROOT, write

GOAL = 0.95
"""The share of each group's mutants that tests must kill."""

_KILLED = ("killed", "timeout")
_LEFT_OUT = (".*", "__pycache__", "build", "cdk.out", "mutants", "node_modules", "reports")
_IMPORTED = ("demo", "emulator", "events", "functions", "stacks")
_MUTMUT = str(Path(sys.executable).parent / "mutmut")
# Without these two, pytest collects garbage and writes files for longer than most tests take.
_PYTEST = ("-p", "no:unraisableexception", "-p", "no:cacheprovider")


class NotMeasured(Exception):
    """mutmut failed, or mutated something else than it was to."""


@dataclass(frozen=True, slots=True)
class Group:
    """Modules of `once` that do something together, and the unit tests that are about them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "commit": Group(
        modules=(
            "commit.committer",
            "commit._cancellation",
            "commit._record_lookup",
            "commit.request",
            "commit.dedup_record",
        ),
        tests=(
            "golden/test_records",
            "once/commit/test_cancellation",
            "once/commit/test_committer",
            "once/commit/test_committer_groups",
            "once/commit/test_expiry",
            "once/commit/test_pending_records",
            "once/commit/test_record_lookup",
            "once/commit/test_request",
        ),
    ),
    "ledger": Group(
        modules=("effects.ledger", "handlers.intent", "effects.executor"),
        tests=(
            "golden/test_records",
            "once/effects/test_effects_answers",
            "once/effects/test_effects_guards",
            "once/effects/test_effects_outcomes",
            "once/effects/test_effects_policies",
            "once/effects/test_effects_saved_errors",
            "once/effects/test_executor",
            "once/effects/test_ledger",
            "once/effects/test_ownership",
        ),
    ),
    "relay": Group(
        modules=("outbox.stream_relay", "outbox._sns_publisher", "events.outgoing"),
        tests=(
            "golden/test_events",
            "once/events/test_outgoing",
            "once/outbox/test_relay_dead_letters",
            "once/outbox/test_sns_publisher",
            "once/outbox/test_stream_relay",
        ),
    ),
    "failures": Group(
        modules=(
            "failures.visibility_backoff",
            "failures.circuit_breaker",
            "failures.quarantine",
            "failures.failure_handler",
            "batch.processor",
        ),
        tests=(
            "once/batch/test_batch",
            "once/batch/test_failures",
            "once/batch/test_group_order",
            "once/batch/test_metrics",
            "once/failures/test_circuit_breaker",
            "once/failures/test_dead_letter_sizes",
            "once/failures/test_quarantine",
            "once/failures/test_visibility_backoff",
        ),
    ),
}


def run(children: int = 1) -> int:
    """Try the tests on every mutant, and write what came of it to `reports/mutants.json`.

    Args:
        children: how many mutants are tried at a time, each in a process of its own.

    Returns:
        The exit status: 0 if every group reaches the goal.

    Raises:
        NotMeasured: there is no figure; the error says why.
    """
    statuses: dict[str, dict[str, str]] = {}
    survivors: dict[str, str] = {}
    with TemporaryDirectory(prefix="once-mutants-") as folder:
        copy = Path(folder) / ROOT.name
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        for name, group in GROUPS.items():
            configure(copy, group)
            statuses[name] = tried(copy, children)
            survivors |= {mutant: shown(copy, mutant) for mutant in surviving(statuses[name])}
            shutil.rmtree(copy / "mutants")
    report = figures(statuses, survivors)
    write("mutants", report)
    _print(report)
    return int(any(group["share"] < GOAL for group in report["groups"].values()))


def configure(project: Path, group: Group) -> None:
    """Write mutmut's settings for a group into a project."""
    settings = ConfigParser()
    settings["mutmut"] = {
        "source_paths": "once",
        "only_mutate": _lines(f"once/{m.replace('.', '/')}.py" for m in group.modules),
        "also_copy": _lines(_IMPORTED),
        "pytest_add_cli_args": _lines(_PYTEST),
        "pytest_add_cli_args_test_selection": _lines(f"tests/{test}.py" for test in group.tests),
    }
    with (project / "setup.cfg").open("w") as file:
        settings.write(file)


def tried(project: Path, children: int = 1) -> dict[str, str]:
    """Let mutmut mutate a project, and return what it says of each mutant, by the mutant's name.

    Args:
        project: its root, with the settings; mutmut leaves its folder there.
        children: how many mutants are tried at a time.

    Raises:
        NotMeasured: mutmut failed; it has printed why.
    """
    mutate = [_MUTMUT, "run", "--max-children", str(children)]
    if subprocess.run(mutate, cwd=project, check=False).returncode != 0:  # noqa: S603
        raise NotMeasured("mutmut failed, as it says above: the tests must pass before it begins")
    said = _asked(project, "results", "--all", "true").splitlines()
    return dict(line.strip().rsplit(": ", 1) for line in said if "__mutmut_" in line)


def shown(project: Path, mutant: str) -> str:
    """Return the lines that a mutant takes out and puts in."""
    lines = _asked(project, "show", mutant).splitlines()
    changed = [line for line in lines if line.startswith(("-", "+"))]
    return "\n".join(line for line in changed if not line.startswith(("---", "+++")))


def surviving(statuses: Mapping[str, str]) -> list[str]:
    """Return who was not killed, for whatever reason: untested is no better than unnoticed."""
    return [mutant for mutant, status in statuses.items() if status not in _KILLED]


def figures(
    statuses: Mapping[str, Mapping[str, str]], survivors: Mapping[str, str]
) -> dict[str, Any]:
    """Return what stands in the report.

    Args:
        statuses: of each mutant, by its name, by the name of its group.
        survivors: what each of them changes, by its name.

    Raises:
        NotMeasured: a group's mutants are not of its modules, or a module has none.
    """
    everyone = {mutant: said for group in statuses.values() for mutant, said in group.items()}
    return {
        "modules": {module: _tally(found) for module, found in _by_module(statuses).items()},
        "groups": {group: _tally(found) for group, found in statuses.items()},
        **_tally(everyone),
        "survived": dict(survivors),
    }


def _by_module(statuses: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for group, mutants in statuses.items():
        for mutant, status in mutants.items():
            found.setdefault(_module_of(mutant), {})[mutant] = status
        if odd := set(GROUPS[group].modules) ^ set(map(_module_of, mutants)):
            raise NotMeasured(f"not mutated, or not of {group}: {', '.join(sorted(odd))}")
    return found


def _module_of(mutant: str) -> str:
    """`commit.committer` of `once.commit.committer.x_judge__mutmut_1`."""
    return mutant.removeprefix("once.").rpartition(".")[0]


def _tally(statuses: Mapping[str, str]) -> dict[str, Any]:
    killed = len(statuses) - len(surviving(statuses))
    return {"mutants": len(statuses), "killed": killed, "share": killed / len(statuses)}


def _lines(values: Iterable[str]) -> str:
    return "\n".join(["", *values])


def _asked(project: Path, *question: str) -> str:
    command = [_MUTMUT, *question]
    answer = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)  # noqa: S603
    return answer.stdout


def _print(report: Mapping[str, Any]) -> None:
    for mutant, change in report["survived"].items():
        sys.stdout.write(f"\n{mutant}\n{change}\n")
    for name, group in report["groups"].items():
        share = f"{group['share']:.1%}, at least {GOAL:.0%} wanted"
        sys.stdout.write(f"{name}: {group['killed']} of {group['mutants']} killed, {share}\n")
