"""Report of the hostile scenario: a table on the terminal, and `reports/hostile.json`."""

from collections.abc import Mapping

from demo.console import console
from demo.report import write_figures

_LABELS = {
    "healthy_sent": "healthy messages sent",
    "healthy_committed": "healthy messages committed",
    "healthy_dead_lettered": "healthy messages dead-lettered",
    "refused_sent": "hostile messages to be dead-lettered",
    "dead_lettered": "dead letters",
    "letters_without_reason": "dead letters without a reason",
    "forged_sent": "forged events and attributes",
    "forged_accepted": "forged ones accepted",
    "lost": "lost",
    "doubled": "doubled",
    "peak_rss_mb": "largest function process, MB",
    "healthy_wait_p99_s": "healthy message's wait, p99, seconds",
}
_ZERO = ("healthy_dead_lettered", "letters_without_reason", "forged_accepted", "lost", "doubled")


def report_figures(figures: Mapping[str, float]) -> bool:
    """Write and print the figures; return whether all of them are as required."""
    title = "Hostile traffic, from tables, queues, card processor and mailboxes"
    write_figures("hostile", title, _LABELS, figures, _ZERO, console)
    all_committed = figures["healthy_committed"] == figures["healthy_sent"] > 0
    good = all_committed and not any(figures[name] for name in _ZERO)
    console.print("[green]every promise holds" if good else "[red]a promise was broken")
    return good
