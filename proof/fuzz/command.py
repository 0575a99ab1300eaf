"""A fuzzing run: measures costs, checks the inputs of each parser, and writes the reports."""

import json
import time
from itertools import chain
from pathlib import Path
from secrets import randbits
from typing import Any

from rich.console import Console
from rich.markup import escape

from proof import report
from proof.fuzz import cost, deliveries, identity, messages, reading, webhooks
from proof.fuzz.cost import Cost, fault_of, figures
from proof.fuzz.search import Found, Parser, fuzz
from proof.workers import Part, Tell, run_parts

NAME = "fuzz"
PARSERS = (
    Parser("strict_json", 16, 0.6, messages.json_text, reading.check_json),
    Parser("events", 12, 0.6, messages.body, reading.check_event),
    Parser("webhooks", 4, 2.2, webhooks.draw, webhooks.check),
    Parser("envelopes", 4, 0.9, reading.draw_envelope, reading.check_envelope),
    Parser("originals", 8, 1.4, reading.draw_original, reading.check_original),
    Parser("intake", 12, 1.0, reading.draw_message, reading.check_message),
    Parser("keys", 12, 0.6, identity.draw_keys, identity.check_keys),
    Parser("canonical", 10, 0.7, identity.draw_canonical, identity.check_canonical),
    Parser("fingerprint", 6, 0.4, identity.draw_events, identity.check_fingerprints),
    Parser("cancellation", 6, 0.4, deliveries.draw_cancellation, deliveries.check_cancellation),
    Parser("stored", 4, 0.3, deliveries.draw_item, deliveries.check_stored),
    Parser("stream", 2, 1.9, deliveries.draw_stream, deliveries.check_stream),
    Parser("batch", 4, 3.6, deliveries.draw_batch, deliveries.check_batch),
)
PAIRS = 300
"""Pairs of families that are measured."""
_PAIRS = "pairs of families"
_PAIR_MS = 120.0

console = Console()


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
    *results, (pairs, pair_costs) = run_parts(_parts(inputs, seed), processes, console)
    found = {parser.name: one for parser, one in zip(PARSERS, results, strict=False)}
    measured = [*chain(*results[len(PARSERS) :], pair_costs)]
    failures = _failures(found | {_PAIRS: pairs}, seed)
    faults = list(filter(None, map(fault_of, measured)))
    for fault in faults:
        console.print(f"[red]{escape(fault)}[/]")
    highest = figures(measured)
    totals = {
        "inputs": sum(one.checked for one in found.values()),
        "crashes": sum(one["count"] for one in failures),
        "parsers": {name: one.checked for name, one in found.items()},
        **highest,
        "failures": failures,
    }
    seconds = time.monotonic() - began
    report.write(NAME, totals | {"seconds": round(seconds, 1), "seed": seed})
    console.print(
        f"{totals['inputs']} inputs, {totals['crashes']} crashes, slowest "
        f"{highest['slowest_ratio']} times a plain body, most memory {highest['memory']} times its "
        f"size, {seconds:.0f} s, seed {seed}"
    )
    return 1 if failures or faults else 0


def replay(file: Path) -> int:
    """Check the input of a saved crash again; return 0 if it passes now."""
    crash = json.loads(file.read_text())
    parsers = {parser.name: parser for parser in (*PARSERS, _pairs([]))}
    error = parsers[crash["parser"]].failure(crash["input"])
    console.print(f"{file.name}: {escape(error or 'this input passes now')}")
    return 0 if error is None else 1


def _parts(inputs: int, seed: int) -> list[Part]:
    """Return the parts of a run: one for each parser, the costs, and the pairs of families."""
    shares = sum(parser.share for parser in PARSERS)
    parts = []
    for one in PARSERS:
        count = -(-inputs * one.share // shares)
        given = (one, str(seed), count)
        parts.append(Part(one.name, "inputs", count, fuzz, given, one.milliseconds / 1000))
    pairs = Part(_PAIRS, "pairs", PAIRS, _measured_pairs, (str(seed), PAIRS), _PAIR_MS / 1000)
    return [*parts, *cost.parts(), pairs]


def _pairs(measured: list[Cost]) -> Parser:
    def check(pair: Any) -> None:
        measured.append(cost.check_pair(pair))

    return Parser(_PAIRS, 0, _PAIR_MS, cost.draw_pair, check, together=1)


def _measured_pairs(seed: str, pairs: int, tell: Tell) -> tuple[Found, list[Cost]]:
    measured: list[Cost] = []
    return fuzz(_pairs(measured), seed, pairs, tell), measured


def _failures(found: dict[str, Found], seed: int) -> list[dict[str, Any]]:
    """Print and save a crash for each error; return them with the number of failing inputs."""
    failures: list[dict[str, Any]] = []
    for parser, one in found.items():
        for error, smallest in one.smallest.items():
            crash = {"parser": parser, "error": error, "seed": seed, "input": smallest}
            again = _save(crash, len(failures) + 1)
            failures.append(crash | {"replay": again, "count": one.failures[error]})
    return failures


def _save(crash: dict[str, Any], number: int) -> str:
    """Write a crash to `reports/fuzz-crash-<number>.json`; return the command that replays it."""
    file = report.write(f"{NAME}-crash-{number}", crash)
    command = f"make fuzz REPLAY={report.REPORTS.name}/{file.name}"
    shown = f"{crash['parser']}, seed {crash['seed']}: {crash['error']}\n"
    shown += f"{json.dumps(crash['input']):.1000}"
    console.print(f"[red]{escape(shown)}[/]\n{command}", soft_wrap=True)
    return command
