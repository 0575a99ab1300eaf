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
    "missing_dead_letters": "unreadable, and not dead-lettered",
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
    broken = ", ".join(_LABELS[name] for name, figure in figures.items() if figure)
    console.print(
        f"[red]The guarantee is broken: {broken} must be 0."
        if broken
        else "[green]each movement was applied once and in its order"
    )
