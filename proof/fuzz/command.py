"""A fuzzing run: measures costs, distributes the inputs over processes, and writes the reports."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import Any

from rich.console import Console
from rich.markup import escape

from proof import report
from proof.fuzz import deliveries, identity, messages, reading, webhooks
from proof.fuzz.cost import (
    COSTS,
    Cost,
    check_pair,
    costs,
    draw_pair,
    fault_of,
    figures,
    large_costs,
)
from proof.fuzz.search import Found, Parser, search, stored
from proof.workers import workers

NAME = "fuzz"
PARSERS = (
    Parser("strict_json", 16, messages.json_text, reading.check_json),
    Parser("events", 12, messages.body, reading.check_event),
    Parser("webhooks", 4, webhooks.draw, webhooks.check),
    Parser("envelopes", 4, reading.draw_envelope, reading.check_envelope),
    Parser("originals", 8, reading.draw_original, reading.check_original),
    Parser("intake", 12, reading.draw_message, reading.check_message),
    Parser("keys", 12, identity.draw_keys, identity.check_keys),
    Parser("canonical", 10, identity.draw_canonical, identity.check_canonical),
    Parser("fingerprint", 6, identity.draw_events, identity.check_fingerprints),
    Parser("cancellation", 6, deliveries.draw_cancellation, deliveries.check_cancellation),
    Parser("stored", 4, deliveries.draw_item, deliveries.check_stored),
    Parser("stream", 2, deliveries.draw_stream, deliveries.check_stream),
    Parser("batch", 4, deliveries.draw_batch, deliveries.check_batch),
)
PAIRS = 400
"""Pairs of families that are measured."""
_CHUNK = 1000

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
_Job = tuple[str, str, int]
"""A parser, the seed of its inputs, and their number; 0 for the failing inputs of earlier runs."""

_known: dict[str, set[str]] = {}
"""By parser, the errors of which this process has shrunk an input."""
console = Console()


def run(inputs: int, seed: int | None = None, processes: int = 2) -> int:
    """Fuzz every parser, and write `reports/fuzz.json`.

    Args:
        inputs: how many, at least.
        seed: generates the same inputs again; None for a random seed.
        processes: how many work in parallel; with 1, this process does the work.

    Returns:
        The exit status: 0 if no input crashed, and no body costs more than is published.
    """
    seed = randbits(32) if seed is None else seed
    console.print(f"seed {seed}")
    for file in report.REPORTS.glob(f"{NAME}*.json"):
        file.unlink()  # or it would be mistaken for the report of this run, if that is interrupted
    start = time.monotonic()
    checked: Counter[str] = Counter()
    failures: Counter[tuple[str, str]] = Counter()
    crashes: dict[tuple[str, str], dict[str, Any]] = {}

    def add(parser: str, found: Found) -> None:
        checked[parser] += found.checked
        for error, count in found.failures.items():
            failures[parser, error] += count
            if (parser, error) not in crashes:
                crash = {"parser": parser, "error": error, "seed": seed}
                crash["input"] = found.smallest[error]
                crashes[parser, error] = crash | {"replay": _save(crash, len(crashes) + 1)}

    with _mapped(processes) as mapped:
        measured = _costs(mapped, partial(add, _PAIRS), seed)
        with report.progress(console, "inputs", inputs) as advance:
            jobs = list(_jobs(inputs, seed))
            for (parser, *_), found in zip(jobs, mapped(_search, jobs), strict=True):
                advance(found.checked)
                add(parser, found)
    del checked[_PAIRS]
    faults = list(filter(None, map(fault_of, measured)))
    for fault in faults:
        console.print(f"[red]{escape(fault)}[/]")
    cost = figures(measured)
    totals = {
        "inputs": checked.total(),
        "crashes": failures.total(),
        "parsers": {parser.name: checked[parser.name] for parser in PARSERS},
        **cost,
        "failures": [crash | {"count": failures[key]} for key, crash in crashes.items()],
    }
    seconds = time.monotonic() - start
    report.write(NAME, totals | {"seconds": round(seconds, 1), "seed": seed})
    console.print(
        f"{checked.total()} inputs, {failures.total()} crashes, slowest {cost['slowest_ratio']} "
        f"times a plain body, most memory {cost['memory']} times its size, {seconds:.0f} s, "
        f"seed {seed}"
    )
    return 1 if failures or faults else 0


def replay(file: Path) -> int:
    """Check the input of a saved crash again; return 0 if it passes now."""
    crash = json.loads(file.read_text())
    parsers = {parser.name: parser for parser in (*PARSERS, _pairs([]))}
    error = parsers[crash["parser"]].failure(crash["input"])
    console.print(f"{file.name}: {escape(error or 'this input passes now')}")
    return 0 if error is None else 1


@contextmanager
def _mapped(processes: int) -> Iterator[Map]:
    if processes == 1:
        yield map
        return
    with workers(processes) as pool:
        yield pool.map


def _jobs(inputs: int, seed: int) -> Iterator[_Job]:
    """Yield the jobs of all parsers by turns, so that the time left can be told."""
    left = {parser.name: -(-inputs * parser.share // _shares()) for parser in PARSERS}
    yield from ((name, "", 0) for name in left)
    number = 0
    while left:
        for name, count in list(left.items()):
            yield name, f"{seed}/{number}", min(count, _CHUNK)
            left[name] = count - _CHUNK
        left = {name: count for name, count in left.items() if count > 0}
        number += 1


def _shares() -> int:
    return sum(parser.share for parser in PARSERS)


def _search(job: _Job) -> Found:
    # The functions of a parser cannot be pickled, so each process takes its own PARSERS.
    name, chunk, inputs = job
    parser = next(parser for parser in PARSERS if parser.name == name)
    if not inputs:
        return stored(parser)
    return search(parser, chunk, inputs, _known.setdefault(name, set()))


_PAIRS = "pairs of families"


def _pairs(measured: list[Cost]) -> Parser:
    return Parser(_PAIRS, 0, draw_pair, lambda pair: measured.append(check_pair(pair)), together=1)


def _costs(mapped: Map, add: Callable[[Found], None], seed: int) -> list[Cost]:
    """Measure all costs, those of messages in this process, before others compete for the CPU."""
    found: list[Cost] = []
    with report.progress(console, "cost of the worst bodies", COSTS + PAIRS) as advance:
        for one in costs():
            found.append(one)
            advance(1)
        add(search(_pairs(found), str(seed), PAIRS, set()))
        advance(PAIRS)
        for one in large_costs(mapped):
            found.append(one)
            advance(1)
    return found


def _save(crash: dict[str, Any], number: int) -> str:
    """Write a crash to `reports/fuzz-crash-<number>.json`; return the command that replays it."""
    file = report.write(f"{NAME}-crash-{number}", crash)
    command = f"make fuzz REPLAY={report.REPORTS.name}/{file.name}"
    shown = f"{crash['parser']}, seed {crash['seed']}: {crash['error']}\n"
    shown += f"{json.dumps(crash['input']):.1000}"
    console.print(f"[red]{escape(shown)}[/]\n{command}", soft_wrap=True)
    return command
