"""Report of a demo run: a table on the terminal, and `reports/<name>.json`."""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from demo.audit import Findings
from emulator.embedded_aws import ROOT

REPORTS = ROOT / "reports"

FIGURES = {
    "sent": "messages sent",
    "distinct": "distinct orders",
    "deliveries": "deliveries to consumers",
    "orders_paid": "orders paid",
    "orders_refused": "orders refused",
    "orders_declined": "orders declined",
    "effects": "state changes",
    "refused": "reservations refused",
    "charges": "cards charged",
    "charge_answers_dropped": "charge answers dropped",
    "functions_killed": "function processes killed",
    "emails": "e-mails sent",
    "dead_lettered": "dead-lettered during the outage",
    "quarantined": "dead-lettered",
}
FAULT_FIGURES = {
    "lost": "lost",
    "doubled": "doubled",
    "double_charges": "double charges",
    "unfinished": "unfinished",
    "stock_balance_error": "stock balance error",
    "balance_error": "balance error",
    "unexplained_dead_letters": "unexplained dead letters",
}
"""Figures that must be 0."""

SPEED_FIGURES = {
    "messages_per_second": "messages per second",
    "deploy_seconds": "seconds to deploy",
}

_Figures = Mapping[str, float]


def write_report(
    findings: Findings, run_figures: _Figures, console: Console, name: str = "demo"
) -> _Figures:
    """Write the report to its file, print it, and return its figures.

    Args:
        findings: result of the audit.
        run_figures: figures of the run itself, by their key in the report.
        console: prints the table.
        name: name of the report's file, without its suffix.
    """
    wanted = (*FIGURES, *FAULT_FIGURES)
    figures = {key: getattr(findings, key) for key in wanted if hasattr(findings, key)}
    figures |= run_figures
    samples = {each: asdict(sample) for each, sample in findings.samples.items()}
    written = figures | ({"samples": samples} if samples else {})
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / f"{name}.json").write_text(json.dumps(written, indent=2) + "\n")
    console.print(_table(findings, figures))
    return figures


def has_enough_faults(figures: _Figures, minimum: Mapping[str, int], console: Console) -> bool:
    """Tell whether each figure reaches its minimum; print those that do not.

    A run without faults proves nothing.
    """
    missing = {name: least for name, least in minimum.items() if figures[name] < least}
    for name, least in missing.items():
        console.print(f"[red]{name} is {figures[name]}; less than {least} proves nothing")
    return not missing


def write_figures(
    name: str,
    title: str,
    labels: Mapping[str, str],
    figures: _Figures,
    must_be_zero: Collection[str],
    console: Console,
) -> None:
    """Write the figures of a scenario to `reports/<name>.json`, and print them as a table."""
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
    console.print(_figures_table(title, labels, figures, must_be_zero))


def _figures_table(
    title: str, labels: Mapping[str, str], figures: _Figures, must_be_zero: Collection[str]
) -> Table:
    """Return a table of labelled figures; those that must be 0 are green or red."""
    table = Table("figure", title=title)
    table.add_column("", justify="right")
    for name, label in labels.items():
        colour = ("red" if figures[name] else "green") if name in must_be_zero else "default"
        table.add_row(label, f"[{colour}]{figures[name]}")
    return table


def print_verdict(figures: _Figures, console: Console, *, passed: bool) -> bool:
    """Print the result of the audit as a sentence; return whether it has passed."""
    if passed:
        console.print(
            f"[green]Each of the {figures['distinct']} orders took effect once: nothing was lost, "
            "doubled or charged twice.",
            soft_wrap=True,
        )
    elif broken := [label for name, label in FAULT_FIGURES.items() if figures[name]]:
        console.print(f"[red]The guarantee is broken: {', '.join(broken)} must be 0.")
    else:
        console.print("[red]The audit is clean, but too few faults took place to prove anything.")
    return passed


def _table(findings: Findings, figures: _Figures) -> Table:
    table = Table(title="Audit, from tables, queues, provider and mailboxes", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, label in FIGURES.items():
        if name in figures:  # a scenario has only some of them
            table.add_row(label, str(figures[name]))
    for reason, count in sorted(findings.quarantined_by_reason.items()):
        table.add_row(f"  {reason}", str(count))
    for consumer, sample in findings.samples.items():
        table.add_row(consumer, str(sample))
    for name, label in SPEED_FIGURES.items():
        if name in figures:
            table.add_row(label, str(figures[name]))
    table.add_section()
    for name, label in FAULT_FIGURES.items():
        colour = "red" if figures[name] else "green"
        table.add_row(f"[bold]{label}", f"[bold {colour}]{figures[name]}")
    return table
