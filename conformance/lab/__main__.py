"""The lab's command line: `python -m lab`, or `make lab`."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from lab.checks import FAULTS, ONCE, Run, report, report_of, run_all, servers_of, write
from lab.matrix import matrix, story, write_picture
from lab.stores import servers
from lab.subjects import APPROACHES
from redelivery import Fault, SubjectError

WIDTH = 160
"""Width of the output where it is not a terminal, such as in the log of a CI job."""

REPORT = Path(__file__).resolve().parents[2] / "reports" / "lab.json"


def lab(
    approach: Annotated[str, typer.Option(envvar="APPROACH", help="Only this approach.")] = "",
    fault: Annotated[Fault | None, typer.Option(envvar="FAULT", help="Only this fault.")] = None,
    load: Annotated[
        int | None,
        typer.Option(envvar="LOAD", min=1, help="Send so many orders through the embedded AWS."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws values and interleavings.")] = 1,
    draw: Annotated[
        bool, typer.Option("--picture", help="Write img/lab.svg and its data, too.")
    ] = False,
) -> None:
    """Run each approach under each fault, and print the matrix.

    With an approach and a fault: what happens, step by step.
    """
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    if approach and approach not in APPROACHES:
        known = ", ".join(APPROACHES)
        raise typer.BadParameter(f"no approach is named {approach!r}; there are {known}")
    names, faults = [approach] if approach else [*APPROACHES], [fault] if fault else [*FAULTS]
    if draw and (approach or fault):
        raise typer.BadParameter("the picture shows the whole matrix: leave out approach and fault")
    if load is not None:
        from lab.load.command import run_load  # it imports the embedded AWS

        raise typer.Exit(0 if run_load(load, names) else 1)
    try:
        if approach and fault:
            with servers(servers_of(names)) as urls:
                found = report_of(names[0], faults, seed, urls)
            story(names[0], faults[0], found, console)
            return
        passed = show_matrix(names, faults, seed=seed, draw=draw, console=console)
    except SubjectError as error:
        sys.exit(f"{approach} cannot be checked: {error}")
    raise typer.Exit(0 if passed else 1)


def show_matrix(
    names: Sequence[str], faults: Sequence[Fault], *, seed: int, draw: bool, console: Console
) -> bool:
    """Check approaches and print the matrix; return whether all were checked and Once is clean.

    A matrix of all approaches and faults is also written as `reports/lab.json`, and with `draw` as
    the picture for the pages.
    """
    console.print(f"{len(names)} approaches, {len(faults)} faults")
    runs: dict[str, Run] = {}
    for run in run_all(names, faults, seed):
        runs[run.approach] = run
        console.print(Text(f"{len(runs)}/{len(names)} {_summary(run)}"), soft_wrap=True)
    ordered = [runs[name] for name in names]
    content = report(ordered, faults, seed)
    if set(names) == set(APPROACHES) and set(faults) == set(FAULTS):
        write(content, REPORT)
    if draw:
        write_picture(content)
    console.print(matrix(content["cells"], faults, console.width))
    if ONCE in names:
        clean = bool(content["once_clean"])
        verdict = "Once passes every cell" if clean else "Once does not pass every cell"
        console.print(Text(verdict, style="green" if clean else "red"))
    wrong = content["errors"]
    for name, error in wrong.items():
        console.print(Text(f"{name} is no evidence: {error}", style="red"))
    return not wrong and (ONCE not in names or bool(content["once_clean"]))


def _summary(run: Run) -> str:
    verdicts = [cell["verdict"] for cell in run.cells.values()]
    failed, ran = verdicts.count("failed"), len(verdicts) - verdicts.count("not-run")
    fired = sum(cell["fired"] for cell in run.cells.values())
    told = f"{failed} of {ran} faults do harm ({fired} scenarios, {run.seconds:.0f} s)"
    return f"{run.approach}: {run.error or told}"


def end_on_signals() -> None:
    """Leave by an exception when this process is ended, so that the stores' servers end too."""

    def interrupt(_: int, __: FrameType | None) -> Any:
        raise KeyboardInterrupt

    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, interrupt)


def main() -> None:
    """Run the command line."""
    end_on_signals()
    typer.run(lab)


if __name__ == "__main__":
    main()
