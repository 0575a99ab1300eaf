"""Report of a change: a table on the terminal, and `reports/change.json`."""

from collections.abc import Mapping

from demo.console import console
from demo.report import write_figures

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
    title = "Changes under traffic, from tables, queues, provider and mailboxes"
    write_figures("change", title, _LABELS, {**figures, **counts}, figures, console)
    good = not any(figures.values())
    console.print(
        "[green]nothing was lost, doubled or left unfinished" if good else "[red]a change did harm"
    )
