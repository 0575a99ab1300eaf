"""Command line of the proofs: `python -m proof …`. Each writes `reports/<name>.json`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Proofs: search for violations of the guarantees.",
)

Processes = Annotated[int, typer.Option(min=1, help="Number of worker processes.")]
Seed = Annotated[int | None, typer.Option(help="Random by default.")]


@app.callback()
def main() -> None:
    """Search for violations of the service's guarantees, and write a report."""


@app.command()
def sim(
    seeds: Annotated[int, typer.Option(min=1)] = 20_000,
    first: Seed = None,
    processes: Processes = 2,
    replay: Annotated[Path | None, typer.Option(envvar="REPLAY")] = None,
) -> None:
    """Explore small scopes, and run the handlers with random schedules and faults."""
    from proof import sim as simulator

    done = simulator.replay(replay) if replay else simulator.start(seeds, first, processes)
    raise typer.Exit(done)


@app.command()
def crashpoints(processes: Processes = 2) -> None:
    """Inject every fault at every call site, alone and in pairs."""
    from proof.crashpoints import campaign

    raise typer.Exit(campaign.run(processes))


@app.command()
def fuzz(
    inputs: Annotated[int, typer.Option(min=1)] = 1_000_000,
    seed: Seed = None,
    processes: Processes = 2,
    replay: Annotated[Path | None, typer.Option(envvar="REPLAY")] = None,
) -> None:
    """Test the parsers with a million messages, events, webhooks, commands and batches."""
    from proof.fuzz import command

    raise typer.Exit(command.replay(replay) if replay else command.run(inputs, seed, processes))


@app.command()
def verify(
    account: Annotated[
        str | None, typer.Option(envvar="ACCOUNT", help="The account of your credentials.")
    ] = None,
    yes: Annotated[bool, typer.Option(envvar="YES", help="Start without a confirmation.")] = False,
    clean: Annotated[
        str | None,
        typer.Option(envvar="CLEAN", help="Only delete what a run with this prefix left."),
    ] = None,
) -> None:
    """Check on real AWS what an emulator cannot show: deploys, observes, deletes."""
    from proof.real_aws import command

    done = command.clean(account, clean) if clean else command.verify(account, yes=yes)
    raise typer.Exit(done)


@app.command()
def mutants(processes: Processes = 2) -> None:
    """Make small faults in the code, and list those that no unit test detects."""
    from proof import mutation

    raise typer.Exit(mutation.run(processes))


@app.command()
def audit() -> None:
    """Audit the supply chain: vulnerabilities, licences, bills of materials, secrets."""
    from proof.supply_chain import audit

    raise typer.Exit(audit.run())


@app.command()
def wheels(
    folder: Annotated[Path, typer.Option()] = Path("dist"),
    tag: Annotated[str, typer.Option(envvar="TAG", help="The tag of a release.")] = "",
) -> None:
    """Build the wheels of a release, in the version that the tag names."""
    from proof.supply_chain import release_wheels

    try:
        built = release_wheels.build(folder, tag)
    except (OSError, ValueError) as error:
        typer.echo(f"wheels: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo("\n".join(map(str, built)))


if __name__ == "__main__":
    app()
