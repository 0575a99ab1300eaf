"""Report of a change: a table on the terminal, and `reports/change.json`."""

import json
from collections.abc import Mapping

from demo.console import console
from demo.report import REPORTS, figures_table

_LABELS = {
    "orders_sent": "orders sent",
    "resent": "sent once more",
    "dead_lettered": "dead-lettered on the way",
    "seconds": "seconds",
    "lost": "lost",
    "doubled": "doubled",
    "letters_lost": "dead letters lost",
    "unfinished": "unfinished",
}


def report_change(figures: Mapping[str, int], counts: Mapping[str, float]) -> None:
    """Write and print a report.

    Args:
        figures: the figures that must be 0.
        counts: the size of the run.
    """
    REPORTS.mkdir(exist_ok=True)
    report = {**figures, **counts}
    (REPORTS / "change.json").write_text(json.dumps(report, indent=2) + "\n")
    title = "Changes under traffic, from tables, queues, provider and mailboxes"
    console.print(figures_table(title, _LABELS, report, figures))
    good = not any(figures.values())
    console.print(
        "[green]nothing was lost, doubled or left unfinished" if good else "[red]a change did harm"
    )
