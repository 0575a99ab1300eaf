"""Output of a demo run: timed steps, figures on the terminal, and `reports/<name>.json`."""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.audit import Findings
from emulator.embedded_aws import EmbeddedAws
from emulator.installed import ROOT
from emulator.local import steps
from emulator.local.steps import Step

console = Console()
REPORTS = ROOT / "reports"

FIGURES = {
    "commands_sent": "orders sent by HTTP",
    "commands_repeated": "of these sent again",
    "answers_lost": "answers lost by their callers",
    "sent": "messages about orders",
    "distinct": "distinct orders",
    "deliveries": "deliveries to consumers",
    "orders_paid": "orders paid",
    "orders_refused": "orders refused",
    "orders_declined": "orders declined",
    "orders_cancelled": "orders cancelled, not paid in time",
    "due_events": "times to pay that were set",
    "refunds": "late charges refunded",
    "effects": "state changes",
    "refused": "reservations refused",
    "charges": "cards charged",
    "charge_answers_dropped": "charge answers dropped",
    "functions_killed": "function processes killed",
    "emails": "e-mails sent",
    "dead_lettered": "dead-lettered during the outage",
    "quarantined": "dead-lettered",
    "messages_per_second": "messages per second",
    "deploy_seconds": "seconds to deploy",
}
FAULT_FIGURES = {
    "lost": "lost",
    "doubled": "doubled",
    "answers_differ": "answers that differ",
    "answers_foreign": "answers of another caller",
    "double_charges": "double charges",
    "due_lost": "due events lost",
    "due_early": "due events early",
    "due_doubled": "due events doubled",
    "unfinished": "unfinished",
    "stock_balance_error": "stock balance error",
    "balance_error": "balance error",
    "unexplained_dead_letters": "unexplained dead letters",
}
"""Figures that must be 0."""

_Figures = Mapping[str, float]


def step(name: str) -> AbstractContextManager[Step]:
    """Show a step while it runs, and its duration in seconds when it has succeeded."""
    return steps.step(name, console=console)


def print_failure(aws: EmbeddedAws, error: Exception) -> None:
    """Print an error with the last lines of the embedded AWS's log.

    A function that cannot start is reported in that log only.
    """
    console.print(str(error), str(aws.child.failure("is still running")), sep="\n", markup=False)


def report_orders(
    findings: Findings, run_figures: _Figures, minimum: Mapping[str, int], name: str = "demo"
) -> bool:
    """Write and print the figures of an audit and of its run, and the verdict.

    Args:
        findings: result of the audit.
        run_figures: figures of the run itself, by their key in the report.
        minimum: least value of some of these: a run without faults proves nothing.
        name: name of the report's file, without its suffix.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """
    wanted = (*FIGURES, *FAULT_FIGURES)
    figures = {key: getattr(findings, key) for key in wanted if hasattr(findings, key)}
    figures |= run_figures
    samples = {each: asdict(sample) for each, sample in findings.samples.items()}
    unexplained = findings.unexplained_by_reason
    more = [
        *(
            (f"  {reason}", count)
            for reason, count in sorted(findings.quarantined_by_reason.items())
        ),
        *((f"  unexplained: {reason}", count) for reason, count in sorted(unexplained.items())),
    ]
    return _report(
        name,
        orders_table(figures, [*more, *findings.samples.items()], "Audit of the orders"),
        figures
        | ({"samples": samples} if samples else {})
        | ({"unexplained": dict(unexplained)} if unexplained else {}),
        FAULT_FIGURES,
        f"Each of the {figures['distinct']} orders took effect once, and was answered the same "
        "each time: nothing was lost, doubled or charged twice.",
        minimum,
        passed=findings.clean,
    )


def orders_table(
    figures: _Figures, more: Iterable[tuple[str, object]] = (), title: str | None = None
) -> Table:
    """Return the figures of a run as a table; a scenario has only some of them."""

    def shown(labels: Mapping[str, str]) -> list[tuple[str, float]]:
        return [(label, figures[name]) for name, label in labels.items() if name in figures]

    counted = (*shown(FIGURES), *more)
    return _table(title, counted, shown(FAULT_FIGURES))


def _table(
    title: str | None, counted: Iterable[tuple[str, object]], faults: Iterable[tuple[str, float]]
) -> Table:
    """Return a table of figures, of which the faults must be 0."""
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for label, figure in counted:
        table.add_row(label, str(figure))
    table.add_section()
    for label, fault in faults:
        table.add_row(f"[bold]{label}", f"[bold {'red' if fault else 'green'}]{fault}")
    return table


def report_figures(
    name: str,
    title: str,
    labels: Mapping[str, str],
    figures: Mapping[str, Any],
    must_be_zero: Collection[str],
    *,
    good: str,
    minimum: Mapping[str, int] | None = None,
    passed: bool = True,
) -> bool:
    """Write and print the figures of a scenario, and the verdict.

    Args:
        name: name of the report's file, without its suffix.
        title: title of the table.
        labels: the figures of the table, with their labels.
        figures: all figures.
        must_be_zero: those that must be 0.
        good: the verdict if they are.
        minimum: least value of some figures: a run without faults proves nothing.
        passed: False if the scenario has failed for another reason.

    Returns:
        Whether it has passed, and enough faults occurred.
    """
    counted = [(label, figures[n]) for n, label in labels.items() if n not in must_be_zero]
    faults = [(label, figures[n]) for n, label in labels.items() if n in must_be_zero]
    zero = {each: labels.get(each, each) for each in must_be_zero}
    table = _table(title, counted, faults)
    return _report(name, table, figures, zero, good, minimum or {}, passed=passed)


def _report(
    name: str,
    table: Table,
    figures: Mapping[str, Any],
    must_be_zero: Mapping[str, str],
    good: str,
    minimum: Mapping[str, int],
    *,
    passed: bool,
) -> bool:
    broken = [
        f"{label} is {figures[each]}, and must be 0"
        for each, label in must_be_zero.items()
        if figures[each]
    ]
    few = [
        f"{each} is {figures[each]}, and less than {least} proves nothing"
        for each, least in minimum.items()
        if figures[each] < least
    ]
    write_report(name, {**figures, "complaints": broken + few})
    console.print(table)
    if broken:
        console.print("[red]The guarantee is broken:")
    elif not passed:
        console.print("[red]The run has failed.")
    elif not few:
        console.print(f"[green]{good}", soft_wrap=True)
    for complaint in broken + few:
        console.print(f"[red]{complaint}")
    return passed and not broken and not few


def write_report(name: str, figures: Mapping[str, object]) -> None:
    """Write `reports/<name>.json`, and replace an earlier one."""
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
