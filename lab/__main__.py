"""The lab's command line: `python -m lab`, or `make lab`."""

import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from lab.matrix import command
from lab.subjects import APPROACHES
from redelivery import Fault, SubjectError

WIDTH = 160
"""Width of the output where it is not a terminal, such as in the log of a CI job."""


def lab(
    approach: Annotated[
        str, typer.Option(envvar="APPROACH", help="Only this approach; empty for all.")
    ] = "",
    fault: Annotated[
        str, typer.Option(envvar="FAULT", help="Only this fault; empty for all.")
    ] = "",
    load: Annotated[
        int | None,
        typer.Option(envvar="LOAD", min=1, help="Send so many orders through the embedded AWS."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws values and interleavings.")] = 1,
    draw: Annotated[
        bool, typer.Option("--picture", help="Write docs/img/lab.svg and its data, too.")
    ] = False,
) -> None:
    """Run each approach under each fault, and print the matrix.

    With an approach and a fault: what happens, step by step.
    """
    console = _console()
    names = [_known("approach", approach, list(APPROACHES))] if approach else list(APPROACHES)
    faults = [Fault(_known("fault", fault, list(Fault)))] if fault else list(Fault)
    if draw and (approach or fault):
        raise typer.BadParameter("the picture shows the whole matrix: leave out approach and fault")
    if load is not None:
        raise typer.Exit(0 if _under_load(load, names) else 1)
    try:
        if approach and fault:
            command.show_cell(names[0], faults[0], seed=seed, console=console)
            return
        passed = command.show_matrix(names, faults, seed=seed, draw=draw, console=console)
    except SubjectError as error:
        sys.exit(f"{approach} cannot be checked: {error}")
    raise typer.Exit(0 if passed else 1)


def _under_load(messages: int, names: list[str]) -> bool:
    """Return whether the load runs succeeded. They import the embedded AWS."""
    return bool(import_module("lab.load.command").run_load(messages, names))


def _known(what: str, name: str, names: list[str]) -> str:
    if name not in names:
        raise typer.BadParameter(f"no {what} is named {name!r}; there are {', '.join(names)}")
    return name


def _console() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else Console(width=WIDTH, highlight=False, markup=False)


def end_on_signals() -> None:
    """Leave by an exception when this process is ended, so that the stores' servers end too."""
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _interrupt)


def _interrupt(_: int, __: FrameType | None) -> Any:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line."""
    end_on_signals()
    typer.run(lab)


if __name__ == "__main__":
    main()
