"""Command line of the proofs: `python -m proof …`. Each writes `reports/<name>.json`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help="What tries to break it.")

Processes = Annotated[int, typer.Option(min=1, help="How many work at the same time.")]
Seed = Annotated[int | None, typer.Option(help="By chance without one.")]


@app.callback()
def main() -> None:
    """Try to break the service, and write down what was seen."""


@app.command()
def sim(
    seeds: Annotated[int, typer.Option(min=1)] = 20_000,
    first: Seed = None,
    processes: Processes = 2,
    replay: Annotated[Path | None, typer.Option(envvar="REPLAY")] = None,
) -> None:
    """Explore small scopes, and run the handlers in a world where everything goes wrong."""
    from proof.sim import command

    raise typer.Exit(command.replay(replay) if replay else command.run(seeds, first, processes))


@app.command()
def explore(
    processes: Processes = 2, replay: Annotated[Path | None, typer.Option()] = None
) -> None:
    """Explore every schedule of small scopes within bounds; a part of `sim`."""
    from proof.explore import command

    raise typer.Exit(command.replay(replay) if replay else command.run(processes))


@app.command()
def crashpoints(processes: Processes = 2) -> None:
    """Let every call site meet every fault, alone and in pairs."""
    from proof import crashpoints

    raise typer.Exit(crashpoints.run(processes))


@app.command()
def fuzz(
    inputs: Annotated[int, typer.Option(min=1)] = 1_000_000,
    seed: Seed = None,
    processes: Processes = 2,
    replay: Annotated[Path | None, typer.Option(envvar="REPLAY")] = None,
) -> None:
    """Feed a million bodies, keys, answers and records to what has to read them."""
    from proof import fuzz

    raise typer.Exit(fuzz.replay(replay) if replay else fuzz.run(inputs, seed, processes))


@app.command()
def soak(seed: Seed = None) -> None:
    """Send thousands of messages to the deployed service while processes and answers are lost."""
    from proof import soak

    raise typer.Exit(soak.run(seed=seed))


@app.command()
def mutants(processes: Processes = 2) -> None:
    """Put small faults into the code, and see which of them the unit tests notice."""
    from proof import mutation

    raise typer.Exit(mutation.run(processes))


if __name__ == "__main__":
    app()
