"""What a demo run shows: a table for people, and `reports/<name>.json` for machines."""

import json
from collections.abc import Mapping

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
    "effects": "effects",
    "refused": "reservations refused",
    "charges": "cards charged",
    "charge_answers_dropped": "charge answers dropped",
    "functions_killed": "function processes killed",
    "emails": "e-mails sent",
    "dead_lettered": "dead-lettered during the outage",
    "quarantined": "quarantined",
}
FAULTS = {
    "lost": "lost",
    "doubled": "doubled",
    "double_charges": "double charges",
    "unfinished": "unfinished",
    "stock_balance_error": "stock balance error",
    "balance_error": "balance error",
    "unexplained_dead_letters": "unexplained dead letters",
}
"""What must be 0."""

PACE = {
    "messages_per_second": "messages per second",
    "deploy_seconds": "seconds to deploy",
}

Figures = Mapping[str, float]


def report(findings: Findings, more: Figures, console: Console, name: str = "demo") -> None:
    """Write the report and print it.

    Args:
        findings: what the audit found.
        more: figures of the run itself, by their key in the report.
        console: where to print.
        name: of the report's file.
    """
    wanted = (*FIGURES, *FAULTS)
    figures = {key: getattr(findings, key) for key in wanted if hasattr(findings, key)}
    figures |= more
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
    console.print(_table(findings, figures))


def _table(findings: Findings, figures: Figures) -> Table:
    table = Table(title="Audit, from tables, queues, provider and mailboxes", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, label in FIGURES.items():
        if name in figures:  # each scenario has some of its own
            table.add_row(label, str(figures[name]))
    for reason, count in sorted(findings.quarantined_by_reason.items()):
        table.add_row(f"  {reason}", str(count))
    for name, label in PACE.items():
        if name in figures:
            table.add_row(label, str(figures[name]))
    table.add_section()
    for name, label in FAULTS.items():
        colour = "red" if figures[name] else "green"
        table.add_row(f"[bold]{label}", f"[bold {colour}]{figures[name]}")
    return table
