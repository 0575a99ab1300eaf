"""Report of the order: a table on the terminal, and `reports/fifo.json`."""

from collections.abc import Mapping

from demo.console import console
from demo.report import write_figures

_LABELS = {
    "sent": "movements sent",
    "groups": "accounts, each a message group",
    "resent": "sent once more",
    "resent_within_window": "of these within the topic's five minutes",
    "failed_once": "movements whose first attempt fails",
    "functions_killed": "function processes killed",
    "dead_lettered": "dead letters, each unreadable",
    "seconds": "seconds",
    "out_of_order": "out of order",
    "lost": "lost",
    "doubled": "doubled",
    "invented": "applied but never sent",
    "unexplained_dead_letters": "unexplained dead letters",
}


def report_order(figures: Mapping[str, int], counts: Mapping[str, float]) -> None:
    """Write and print a report.

    Args:
        figures: the figures that must be 0.
        counts: the size of the run.
    """
    title = "FIFO under failures, from the tables"
    write_figures("fifo", title, _LABELS, {**counts, **figures}, figures, console)
    good = not any(figures.values())
    console.print(
        "[green]each movement was applied once and in its order"
        if good
        else "[red]a message group lost its order, or a movement"
    )
