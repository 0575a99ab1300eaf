"""`make soak`: thousands of messages, hundreds of killed processes and lost answers, an audit."""

import secrets
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from demo.payment_sandbox import PaymentFault, payment_sandbox
from demo.report import FAULT_FIGURES, console, print_failure, step
from demo.shop import deploy_service
from emulator.child_processes import ProcessFailed
from emulator.embedded_aws import embedded_aws
from proof.report import write
from proof.soak.drops import Drop
from proof.soak.play import Shape, play

TRAFFIC = ("--count", "2500", "--duplicates", "100%", "--conflicts", "5", "--malformed", "5",
           "--refusals", "50", "--declines", "50", "--timeout", "900")  # fmt: skip
SOAK = Shape(
    traffic=TRAFFIC,
    calls_a_kill=75,
    drops={Drop.ANSWER_LOST: 0.012, Drop.REFUSED: 0.004, Drop.LATE: 0.004},
    charges={
        PaymentFault.DROP: 0.05,
        PaymentFault.DROP_BEFORE: 0.01,
        PaymentFault.ERROR_BEFORE: 0.01,
        PaymentFault.ERROR_AFTER: 0.01,
        PaymentFault.UNAVAILABLE: 0.01,
    },
    least={
        "sends": 5000,
        "kills": 200,
        "kills_in_mid_batch": 50,
        "drops": 200,
        "answers_lost": 100,
        "charge_answers_dropped": 50,
    },
)
SEED_BITS = 32
NAME = "soak"


def run(shape: Shape = SOAK, *, seed: int | None = None) -> int:
    """Run a soak; the seed of its faults is random by default.

    Returns:
        The exit status: 0 if the audit finds nothing wrong, and there were enough faults.
    """
    started = time.monotonic()
    write(NAME, {"complaints": ["the run was interrupted"]})
    with payment_sandbox() as sandbox, embedded_aws() as aws:
        try:
            with step("cdk bootstrap, cdk deploy") as shown:
                deployment = deploy_service(aws, sandbox.url, report=shown.show)
            chosen = secrets.randbits(SEED_BITS) if seed is None else seed
            figures = play(aws, sandbox, deployment, shape, chosen)
        except (subprocess.CalledProcessError, ProcessFailed) as error:
            print_failure(aws, error)
            return 1
        return conclude({**figures, "seconds": round(time.monotonic() - started, 1)}, shape)


def conclude(figures: Mapping[str, Any], shape: Shape) -> int:
    """Write and print the report, and return the exit status."""
    wrong = complaints(figures, shape.least)
    file = write(NAME, {**figures, "complaints": wrong})
    table = Table("soak", title_justify="left")
    table.add_column("figure", justify="right")
    for name, figure in figures.items():
        if isinstance(figure, int | float):
            colour = ("red" if figure else "green") if name in FAULT_FIGURES else "default"
            table.add_row(name.replace("_", " "), f"[{colour}]{figure}")
    console.print(table)
    for line in wrong:
        console.print(f"[red]{line}")
    console.print(f"[dim]{file}", highlight=False)
    return 1 if wrong else 0


def complaints(figures: Mapping[str, Any], least: Mapping[str, int]) -> list[str]:
    """Return the fault figures that are not 0, and the figures below their minimum."""
    wrong = [f"{name} is {figures[name]}, and must be 0" for name in FAULT_FIGURES if figures[name]]
    return wrong + [
        f"{name} is {figures[name]}, and less than {number} shows nothing"
        for name, number in least.items()
        if figures[name] < number
    ]
