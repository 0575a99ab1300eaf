"""A fuzzing run: distributes the inputs over processes, writes the report and a file per crash."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from secrets import randbits
from typing import Any

from rich.console import Console
from rich.markup import escape

from proof import report
from proof.fuzz.cost import COSTS, costs, fault_of, figures, large_costs
from proof.fuzz.parsers import PARSERS
from proof.fuzz.shrink import shrunk
from proof.fuzz.target import Target
from proof.workers import workers

NAME = "fuzz"
_CHUNK = 1000

console = Console()


@dataclass(frozen=True, slots=True)
class Crash:
    """A failing input. The seed and the input's number generate the original input again."""

    parser: str
    seed: int
    number: int
    error: str
    input: Any

    def __str__(self) -> str:
        found = json.dumps(self.input)
        return f"{self.parser}, seed {self.seed}, input {self.number}: {self.error}\n{found:.1000}"


_Chunk = list[tuple[str, Crash | None]]


def chosen(seed: int, number: int, targets: Sequence[Target]) -> tuple[Target, Random]:
    """Return the target of an input and its random source; both depend on the arguments alone."""
    rng = Random(f"{seed}/{number}")
    [target] = rng.choices(targets, [target.share for target in targets])
    return target, rng


def check(
    seed: int, numbers: Iterable[int], targets: Sequence[Target]
) -> Iterator[tuple[str, Crash | None]]:
    """Check the inputs of these numbers; yield for each its parser, and a crash if it failed."""
    for number in numbers:
        target, rng = chosen(seed, number, targets)
        value = target.draw(rng)
        error = target.failure(value)
        crash = Crash(target.name, seed, number, error, value) if error else None
        yield target.name, crash


def run(inputs: int, seed: int | None = None, processes: int = 2) -> int:
    """Fuzz every parser, and write `reports/fuzz.json`.

    Args:
        inputs: how many.
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
    cost, dear = _costs()  # before other processes compete for the CPU
    checked: Counter[str] = Counter()
    failures: Counter[tuple[str, str]] = Counter()
    with report.progress(console, "inputs", inputs) as advance:
        for chunk in _chunks(inputs, seed, processes):
            advance(len(chunk))
            checked.update(parser for parser, _ in chunk)
            for crash in filter(None, (crash for _, crash in chunk)):
                failures[crash.parser, crash.error] += 1
                if failures[crash.parser, crash.error] == 1:
                    _save(crash, len(failures))
    totals = {
        "inputs": checked.total(),
        "crashes": failures.total(),
        "parsers": {target.name: checked[target.name] for target in PARSERS},
    }
    seconds = time.monotonic() - start
    report.write(NAME, {**totals, **cost, "seconds": round(seconds, 1), "seed": seed})
    console.print(
        f"{inputs} inputs, {failures.total()} crashes, slowest {cost['slowest_ratio']} times a "
        f"plain body, most memory {cost['memory']} times its size, {seconds:.0f} s, seed {seed}"
    )
    return 1 if failures or dear else 0


def replay(file: Path) -> int:
    """Check the input of a saved crash again; return 0 if it passes now."""
    crash = json.loads(file.read_text())
    error = _target(crash["parser"]).failure(crash["input"])
    console.print(f"{file.name}: {escape(error or 'this input passes now')}")
    return 0 if error is None else 1


def _costs() -> tuple[dict[str, Any], int]:
    """Return the figures of all costs, and how many are over a bound."""
    found = []
    with report.progress(console, "cost of the worst bodies", COSTS) as advance:
        for one in chain(costs(), large_costs()):
            found.append(one)
            advance(1)
    faults = list(filter(None, map(fault_of, found)))
    for fault in faults:
        console.print(f"[red]{escape(fault)}[/]")
    return figures(found), len(faults)


def _chunks(inputs: int, seed: int, processes: int) -> Iterator[_Chunk]:
    numbers = [range(at, min(at + _CHUNK, inputs)) for at in range(0, inputs, _CHUNK)]
    if processes == 1:
        yield from map(partial(_chunk, seed), numbers)
        return
    with workers(processes) as pool:
        yield from pool.map(partial(_chunk, seed), numbers)


def _chunk(seed: int, numbers: range) -> _Chunk:
    # The functions of a target cannot be pickled, so each process takes its own PARSERS.
    return list(check(seed, numbers, PARSERS))


def _target(name: str) -> Target:
    return next(target for target in PARSERS if target.name == name)


def _save(crash: Crash, number: int) -> None:
    """Shrink the input of a crash, and write it to `reports/fuzz-crash-<number>.json`."""
    target = _target(crash.parser)
    smallest = shrunk(crash.input, lambda value: target.failure(value) == crash.error)
    small = replace(crash, input=smallest)
    file = report.write(f"{NAME}-crash-{number}", asdict(small))
    console.print(f"[red]{escape(str(small))}[/]\nsaved in {file.name}", soft_wrap=True)
