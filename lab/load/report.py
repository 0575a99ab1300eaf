"""Report of a load run: a table on the terminal, and `reports/lab-load.json`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lab.load.result import Measured, Result

FILE = Path(__file__).resolve().parents[2] / "reports" / "lab-load.json"
_COUNTS = ("doubled", "lost", "dead")


def write(measured: Measured) -> None:
    """Write the results as JSON."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(as_json(measured), indent=2) + "\n")


def as_json(measured: Measured) -> dict[str, Any]:
    """Return the results as JSON can hold them. Ratios are durations beside no idempotency."""
    return {
        "messages": len(measured.sent.orders),
        "duplicates": measured.sent.duplicates,
        "approaches": {
            name: {
                "ratio": round(measured.ratios[name], 2),
                "without_kills": _figures(measured.load[name]),
                "with_kills": _figures(measured.killed[name]),
            }
            for name in measured.load
        },
        "not_run": measured.not_run,
    }


def show(measured: Measured, console: Console) -> None:
    """Print the results: first without kills, then with kills."""
    sent = measured.sent
    title = f"{len(sent.orders)} orders, {sent.duplicates} of them sent twice; right: with kills"
    # The padding keeps the table within 80 columns.
    table = Table("approach", title=title, box=None, padding=(0, 2, 0, 0))
    for column in (*_COUNTS, "ratio", "kills", *_COUNTS):
        table.add_column(column, justify="right", no_wrap=True)
    for name, plain in measured.load.items():
        killed = measured.killed[name]
        ratio = f"{measured.ratios[name]:.2f}"
        table.add_row(name, *_counts(plain), ratio, str(killed.kills), *_counts(killed))
    console.print(table)
    console.print("ratio: duration of the handler, divided by its duration without idempotency")
    for name, reason in measured.not_run.items():
        console.print(f"{name} was not run: {reason}", markup=False)


def _counts(result: Result) -> tuple[str, ...]:
    return str(result.doubled), str(result.lost), str(result.dead_letters)


def _figures(result: Result) -> dict[str, Any]:
    return {**asdict(result), "seconds": round(result.seconds, 1)}
