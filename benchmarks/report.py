"""Report of a run: tables on the terminal, and `reports/bench.json`."""

import json
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Goal
from benchmarks.matrix import title_of
from benchmarks.rows import Row
from benchmarks.webhooks.measure import webhooks_in

_NONE = "–"


def write(rows: Sequence[Row], file: Path) -> None:
    """Write the rows as JSON."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(rows, indent=2) + "\n")


def show(
    rows: Sequence[Row], imports: Sequence[Row], goals: Sequence[Goal], console: Console
) -> None:
    """Print the results, the imports and the goals."""
    title = "One message: medians of all repeats. Ratios are taken within one repeat."
    batches = [row for row in rows if "request" not in row]
    console.print(_results(title, _COLUMNS, batches, title_of))
    if webhooks := webhooks_in(rows):
        title = "One webhook: medians of all requests. Ratios are taken within one pair."
        console.print(_results(title, _WEBHOOK_COLUMNS, webhooks, _webhook_title))
    if imports:
        console.print(_imports(imports))
    console.print(_goals(goals))


def number(value: float | None) -> str:
    """Return a ratio or a count with its significant digits."""
    if value is None:
        return _NONE
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.3f}"


def units(row: Row) -> str:
    """Return the write units of a message, without and with cancelled transactions."""
    most, least = number(row["write_units"]), number(row["write_units_least"])
    return most if most == least else f"{least}–{most}"


_Columns = dict[str, Callable[[Row], str]]

_COLUMNS: _Columns = {
    "wall\nµs": lambda row: f"{row['wall_us']:,.0f}",
    "wall\n/ raw": lambda row: number(row["vs_raw"]),
    "wall\n/ Powert.": lambda row: number(row["vs_powertools"]),
    "CPU\nµs": lambda row: _NONE if row["cpu_us"] is None else f"{row['cpu_us']:,.0f}",
    "CPU\n/ raw": lambda row: number(row["cpu_vs_raw"]),
    "requests": lambda row: number(row["requests"]),
    "write\nunits": units,
    "read\nunits": lambda row: number(row["read_units"]),
}


_WEBHOOK_COLUMNS: _Columns = {
    "p50\nµs": lambda row: f"{row['wall_us']:,.0f}",
    "p99\nµs": lambda row: f"{row['p99_us']:,.0f}",
    "wall\n/ put": lambda row: number(row["vs_put"]),
    "CPU\nµs": _COLUMNS["CPU\nµs"],
    "CPU\n/ put": lambda row: number(row["cpu_vs_put"]),
    "CPU /\ngenuine": lambda row: number(row["cpu_vs_genuine"]),
    "write\nunits": lambda row: number(row["write_units"]),
}


def _results(
    title: str, columns: _Columns, rows: Sequence[Row], title_of: Callable[[Row], str]
) -> Table:
    """Return a table with the rows of each setting under its title."""
    # The padding keeps the table within 80 columns.
    table = Table("", title=title, box=None, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for setting, group in groupby(rows, title_of):
        table.add_row("")
        table.add_row("[bold]" + setting.replace("ms, ", "ms,\n").replace("model, ", "model,\n"))
        for row in group:
            table.add_row(row["contender"], *(cell(row) for cell in columns.values()))
    return table


def _webhook_title(row: Row) -> str:
    """Return the kind of request, and the time of an answer."""
    delay = row["delay_ms"]
    return f"{row['request']}, {delay if isinstance(delay, str) else f'{delay} ms'}"


def _imports(imports: Sequence[Row]) -> Table:
    table = Table("contender", title="Import: CPU time of a cold start")
    names = ["bytecode", "cpu_ms", "modules", "vs_boto3"]
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    for row in imports:
        table.add_row(row["contender"], *(str(row[name]) for name in names))
    return table


def _goals(goals: Sequence[Goal]) -> Table:
    table = Table("figure", title="Goals: upper limits")
    for name in ("goal", "seen", "holds"):
        table.add_column(name, justify="right")
    for goal in goals:
        seen = "" if goal.seen is None else f"{goal.seen:.3f}"
        status = "[green]yes" if goal.holds else "[bold red]no"
        status = "not measured" if goal.seen is None else status
        table.add_row(goal.figure, f"{goal.goal:.3f}", seen, status)
    return table
