"""Report of a run: the measured part of docs/performance.md, which the terminal shows too."""

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from benchmarks.commands import FUNCTIONS as COMMANDS
from benchmarks.commands import SENT
from benchmarks.contenders import CONTENDERS
from benchmarks.dynamodb import MODEL
from benchmarks.effects import CALLS_MS
from benchmarks.effects import CONTENDERS as EFFECTS
from benchmarks.goals import Goal, figure
from benchmarks.rows import EMBEDDED, Row, select
from benchmarks.webhooks import webhooks_in
from docs.tools.marked_block import replaced


def number(value: float | None) -> str:
    """Return a ratio or a count with its significant digits."""
    if value is None:
        return "–"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.3f}"


_EFFECT_COLUMNS = {
    "wall / one call": "vs_one_call",
    "time / one a batch": "vs_sequential",
    "wall / raw threads": "vs_raw_threads",
    "requests": "requests_per_message",
}

_Where = dict[str, Any]

_CLEAN: dict[str, _Where] = {
    "0 ms": {"delay_ms": 0},
    "5 ms": {},
    "5 ms, 100": {"records": 100},
    "model": {"delay_ms": MODEL},
    "model, 100": {"delay_ms": MODEL, "records": 100},
}
_FAULTS: dict[str, _Where] = {
    "1 % duplicates": {"duplicates": 0.01},
    "10 % duplicates": {"duplicates": 0.1},
    "all duplicates": {"duplicates": 1.0},
    "known duplicates": {"duplicates": 1.0, "redelivered": True},
    "1 % conflicts": {"conflicts": 0.01},
    "5 % conflicts": {"conflicts": 0.05},
}

_WEBHOOK_WALLS = {"0 ms": 0, "5 ms": 5, "model": MODEL, "embedded": EMBEDDED}
_WEBHOOK_COSTS = {
    "CPU": "cpu_vs_put",
    "CPU / genuine": "cpu_vs_genuine",
    "write units": "write_units",
}

_COMMAND_WALLS = {"0 ms": 0, "5 ms": 5, "model": MODEL}
_COMMAND_COSTS = {
    "CPU": "cpu_vs_raw",
    "requests": "requests",
    "write units": "write_units",
}

_END_TO_END = {
    "clock": "wall_us",
    "CPU: sender": "sender_cpu_us",
    "embedded AWS": "aws_cpu_us",
    "function": "function_cpu_us",
}


def rewritten(page: str, rows: Sequence[Row], imports: Sequence[Row], goals: Sequence[Goal]) -> str:
    """Return the page with the measured parts of this run."""
    return replaced(page, "measured", "\n".join(measured(rows, imports, goals)))


def measured(rows: Sequence[Row], imports: Sequence[Row], goals: Sequence[Goal]) -> Iterator[str]:
    """Yield the lines of the measured part, in Markdown."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield f"On {os.cpu_count()} cores ({platform.machine()}) with Python {python}."
    yield "Wall time of a message without faults, by the time of an answer; raw transaction = 1."
    yield "Batches have ten records, or 100 where the column says so:"
    yield from _table(["", *_CLEAN, "CPU, 5 ms", "embedded"], _clean(rows))
    yield "The same with faults, at ten records and 5 ms, with the units of a message"
    yield "(w written, r read):"
    yield from _table(["", *_FAULTS], _faulty(rows))
    yield "Through the embedded AWS: rate (a function that only reads the batch = 1), and"
    yield "microseconds of a message on the clock and of CPU, by process:"
    yield from _table(["", "rate", *_END_TO_END], _end_to_end(rows))
    yield "Messages with an effect, by the time of a call, ten a batch unless the row says one"
    yield "(*one call*: wall time of an invocation without two commits; one call = 1):"
    heads = (f"{title}, {ms} ms" for ms in CALLS_MS for title in _EFFECT_COLUMNS)
    yield from _table(["", *heads], _effects(rows))
    models = select(rows, kind="models")
    yield "CPU time of a message in groups of ten, by the model of its event; msgspec.Struct = 1:"
    yield ", ".join(f"{row['contender']} {number(row['cpu_vs_struct'])}" for row in models) + "."
    yield ""
    yield "Wall time of a webhook, by the time of an answer; a function that only verifies it and"
    yield "puts the item = 1. The other columns are at 5 ms, times in microseconds:"
    times = ("p50", "p99", "p50, embedded", "p99, embedded")
    yield from _table(["", *_WEBHOOK_WALLS, *times, *_WEBHOOK_COSTS], _webhooks(rows))
    yield "Wall time of a command, by the time of an answer; one transaction with boto3 = 1 (for a"
    yield "repeated request a cancelled one). The other columns are at 5 ms:"
    yield from _table(["", *_COMMAND_WALLS, *_COMMAND_COSTS], _commands(rows))
    yield "CPU time of a cold start's imports from the package; boto3 with one client = 1:"
    yield ", ".join(f"{row['contender']} {number(row['vs_boto3'])}" for row in imports) + "."
    yield ""
    missed = [goal for goal in goals if not goal.holds]
    yield f"Of {len(goals)} goals (`benchmarks/goals.py`) {len(goals) - len(missed)} hold."
    for goal in missed:
        seen = "not measured" if goal.seen is None else f"{goal.seen:.3f}"
        yield f"- **Missed:** {goal.figure}: {seen}; the goal is at most {goal.goal:.2f}."


def _clean(rows: Sequence[Row]) -> Iterator[list[str]]:
    for contender in CONTENDERS:
        names = (contender.name,)
        walls = (number(figure(rows, names, "vs_raw", **where)) for where in _CLEAN.values())
        cpu = figure(rows, names, "cpu_vs_raw")
        end_to_end = figure(rows, names, "vs_raw", delay_ms=EMBEDDED)
        yield [contender.name, *walls, number(cpu), number(end_to_end)]


def _faulty(rows: Sequence[Row]) -> Iterator[list[str]]:
    for contender in CONTENDERS:
        cells = [_cell(rows, contender.name, where) for where in _FAULTS.values()]
        if any(cells):
            yield [contender.name, *cells]


def _end_to_end(rows: Sequence[Row]) -> Iterator[list[str]]:
    for row in select(rows, delay_ms=EMBEDDED):
        figures = (f"{row[field]:,.0f}" for field in _END_TO_END.values())
        yield [row["contender"], number(1 / row["vs_nothing"]), *figures]


def _effects(rows: Sequence[Row]) -> Iterator[list[str]]:
    for name, (_, records) in EFFECTS.items():
        same = {"kind": "effects", "contender": name, "records": records}
        found = [row for ms in CALLS_MS for row in select(rows, **same, call_ms=ms)]
        if found:
            yield [name, *(number(row[key]) for row in found for key in _EFFECT_COLUMNS.values())]


def _webhooks(rows: Sequence[Row]) -> Iterator[list[str]]:
    for shown in webhooks_in(rows, delay_ms=5):
        same = {name: shown[name] for name in ("contender", "request")}
        by_delay = {row["delay_ms"]: row for row in webhooks_in(rows, **same)}
        settings = [by_delay.get(delay) for delay in _WEBHOOK_WALLS.values()]
        walls = [number(row["vs_put"] if row else None) for row in settings]
        times = [
            f"{row[name]:,.0f}" if row else number(None)
            for row in (shown, by_delay.get(EMBEDDED))
            for name in ("wall_us", "p99_us")
        ]
        costs = [number(shown[name]) for name in _WEBHOOK_COSTS.values()]
        yield [f"{shown['contender']}, {shown['request']}", *walls, *times, *costs]


def _commands(rows: Sequence[Row]) -> Iterator[list[str]]:
    for name, sent in product(COMMANDS, SENT):
        same = {"kind": "commands", "contender": name, "sent": sent}
        own = {row["delay_ms"]: row for row in rows if same.items() <= row.items()}
        if shown := own.get(_COMMAND_WALLS["5 ms"]):
            walls = [
                own[each]["vs_raw"] if each in own else None for each in _COMMAND_WALLS.values()
            ]
            costs = [shown[key] for key in _COMMAND_COSTS.values()]
            yield [f"{name}, {sent}", *map(number, (*walls, *costs))]


def _cell(rows: Sequence[Row], name: str, where: _Where) -> str:
    for row in select(rows, contender=name, **where):
        # Write units without and with cancelled transactions.
        units = dict.fromkeys(number(row[each]) for each in ("write_units_least", "write_units"))
        reads = f", {number(row['read_units'])} r" if row["read_units"] else ""
        return f"{number(row['vs_raw'])} ({'–'.join(units)} w{reads})"
    return ""


def _table(head: list[str], lines: Iterator[list[str]]) -> Iterator[str]:
    yield ""
    for cells in (head, ["---", *["---:"] * (len(head) - 1)], *lines):
        yield f"| {' | '.join(cells)} |"
    yield ""
