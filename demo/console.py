"""Terminal output of a demo run: the console, timed steps, and the report of a failure."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from emulator.embedded_aws import EmbeddedAws

console = Console()


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print a step's name when it begins, and its duration in seconds when it has succeeded."""
    started = time.monotonic()
    console.print(f"[dim]{name} …", highlight=False)
    yield
    console.print(f"[dim]{name}: {time.monotonic() - started:.1f} s", highlight=False)


def print_failure(aws: EmbeddedAws, error: Exception) -> None:
    """Print an error with the last lines of the embedded AWS's log.

    A function that cannot start is reported in that log only.
    """
    console.print(str(error), str(aws.child.failure("is still running")), sep="\n", markup=False)
