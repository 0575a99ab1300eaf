"""The command `make fuzz`: every parser and the costs of all families, in parallel."""

import json
import time
from itertools import chain
from pathlib import Path
from secrets import randbits
from typing import Any

from rich.console import Console

from proof import report
from proof.fuzz import commands, cost, deliveries, messages, reading, values, webhooks
from proof.fuzz.search import Found, Parser, fuzz
from proof.workers import Part, run_parts

NAME = "fuzz"
PARSERS = (
    Parser("strict_json", 32, 0.4, messages.json_text, values.check_json),
    Parser("intake", 32, 0.8, reading.draw_message, reading.check_message),
    Parser("identity", 24, 0.8, values.draw_events, values.check_events),
    Parser("webhooks", 4, 2.6, webhooks.draw, webhooks.check),
    Parser("commands", 4, 2.4, commands.draw, commands.check),
    Parser("batch", 4, 4.2, deliveries.draw_batch, deliveries.check_batch),
)

console = Console(markup=False, highlight=False, soft_wrap=True)


def run(inputs: int, seed: int | None = None, processes: int = 2) -> int:
    """Fuzz every parser, and write `reports/fuzz.json`.

    Args:
        inputs: how many, at least.
        seed: generates the same inputs again; None for a random seed.
        processes: number of worker processes.

    Returns:
        The exit status: 0 if no input crashed, and no body costs more than is published.
    """
    seed = randbits(32) if seed is None else seed
    console.print(f"seed {seed}")
    for file in report.REPORTS.glob(f"{NAME}*.json"):
        file.unlink()  # or it would be mistaken for the report of this run, if that is interrupted
    began = time.monotonic()
    results = run_parts(_parts(inputs, seed), processes, console, apart=True)
    found = {parser.name: one for parser, one in zip(PARSERS, results, strict=False)}
    measured = [*chain(*results[len(PARSERS) :])]
    failures = _failures(found, seed)
    faults = [*filter(None, map(cost.fault_of, measured))]
    for fault in faults:
        console.print(fault, style="red")
    totals = {
        "inputs": sum(one.checked for one in found.values()),
        "crashes": sum(one["count"] for one in failures),
        "parsers": {name: one.checked for name, one in found.items()},
        **cost.figures(measured),
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
        "seed": seed,
    }
    report.write(NAME, totals)
    console.print(
        f"{totals['inputs']} inputs, {totals['crashes']} crashes, slowest "
        f"{totals['slowest_ratio']} times a plain body, most memory {totals['memory']} times its "
        f"size, {totals['seconds']:.0f} s, seed {seed}"
    )
    return 1 if failures or faults else 0


def replay(file: Path) -> int:
    """Check the input of a saved crash again; return 0 if it passes now."""
    crash = json.loads(file.read_text())
    parsers = {parser.name: parser for parser in PARSERS}
    error = parsers[crash["parser"]].failure(crash["input"])
    console.print(f"{file.name}: {error or 'this input passes now'}")
    return int(bool(error))


def _parts(inputs: int, seed: int) -> list[Part]:
    """Return the parts of a run: one for each parser, and those of the costs."""
    shares = sum(parser.share for parser in PARSERS)
    counts = [(one, -(-inputs * one.share // shares)) for one in PARSERS]
    return [
        *(
            Part(one.name, "inputs", n, fuzz, (one, str(seed), n), one.milliseconds / 1000)
            for one, n in counts
        ),
        *cost.parts(),
    ]


def _failures(found: dict[str, Found], seed: int) -> list[dict[str, Any]]:
    """Print and save a crash for each error; return them with the number of failing inputs."""
    failures: list[dict[str, Any]] = []
    for parser, one in found.items():
        for error, smallest in one.failing.items():
            crash = {"parser": parser, "error": error, "seed": seed, "input": smallest}
            file = report.write(f"{NAME}-crash-{len(failures) + 1}", crash)
            again = f"make fuzz REPLAY={report.REPORTS.name}/{file.name}"
            console.print(f"{parser}, seed {seed}: {error}", style="red")
            console.print(f"{json.dumps(smallest):.1000}\n{again}")
            failures.append(crash | {"replay": again, "count": one.failures[error]})
    return failures
