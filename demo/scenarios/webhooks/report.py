"""Report of the webhooks: a table on the terminal, and `reports/webhooks.json`."""

from collections.abc import Collection, Mapping

from demo.console import console
from demo.report import write_figures

_LABELS = {
    "sent": "requests sent",
    "distinct": "webhooks, of four providers",
    "resent": "of these sent again, on simulated days",
    "replayed": "sent again under another id that is not signed",
    "altered_sent": "copies with another type or content type, sent first",
    "conflicts": "GitHub's behind a copy of another type, replayed",
    "functions_killed": "function processes killed",
    "killed_requests": "requests that ended with their function",
    "refused_in_rotation": "refused for seconds after a rotation of secrets",
    "p50_ms": "time to the answer, p50, ms",
    "p99_ms": "time to the answer, p99, ms",
    "seconds": "seconds",
    "handshakes": "Slack's handshakes answered",
    "forged_sent": "forged and stale requests",
    "events": "events published",
    "lost": "lost",
    "doubled": "doubled",
    "forged_accepted": "forged ones accepted",
    "altered": "captures or events that differ from their webhook",
}


def report_webhooks(figures: Mapping[str, float], must_be_zero: Collection[str]) -> bool:
    """Write and print the figures; return whether those that must be 0 are."""
    title = "Webhooks, from captures, events and the consumer's table"
    write_figures("webhooks", title, _LABELS, figures, must_be_zero, console)
    good = not any(figures[name] for name in must_be_zero)
    console.print(
        f"[green]Each of the {figures['distinct']} webhooks was captured, and was applied once."
        if good
        else "[red]A webhook was lost or doubled, or a forged one was accepted."
    )
    return good
