"""Terminal output of a demo run: the console, timed steps, and the report of a failure."""

from contextlib import AbstractContextManager

from rich.console import Console

from emulator.embedded_aws import EmbeddedAws
from emulator.local import steps
from emulator.local.steps import Step

console = Console()


def step(name: str) -> AbstractContextManager[Step]:
    """Show a step while it runs, and its duration in seconds when it has succeeded."""
    return steps.step(name, console=console)


def print_failure(aws: EmbeddedAws, error: Exception) -> None:
    """Print an error with the last lines of the embedded AWS's log.

    A function that cannot start is reported in that log only.
    """
    console.print(str(error), str(aws.child.failure("is still running")), sep="\n", markup=False)
