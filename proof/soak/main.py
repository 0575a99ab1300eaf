"""`make soak`: thousands of messages, hundreds of killed processes and lost answers, one audit."""

import secrets
import subprocess
import time

from rich.table import Table

from demo.console import console, print_failure, step
from demo.deployed_shop import deploy_service
from demo.payment_sandbox import PaymentFault, payment_sandbox
from demo.report import FAULT_FIGURES
from emulator.child_processes import ProcessFailed
from emulator.embedded_aws import embedded_aws
from proof.report import write
from proof.soak.drops import Drop
from proof.soak.play import Shape, play
from proof.soak.verdict import Figures, complaints

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
    """Run the soak; return the exit status, 0 only if nothing is wrong after enough went wrong.

    Args:
        shape: how much is sent, and how much goes wrong.
        seed: what chance depends on; by default another one each time.
    """
    started = time.monotonic()
    write(NAME, {"complaints": ["the run has not come to its end"]})
    with payment_sandbox() as sandbox, embedded_aws() as aws:
        try:
            with step("deploying: cdk bootstrap, cdk deploy"):
                deployment = deploy_service(aws, sandbox.url)
            chosen = secrets.randbits(SEED_BITS) if seed is None else seed
            figures = play(aws, sandbox, deployment, shape, chosen)
        except (subprocess.CalledProcessError, ProcessFailed) as error:
            print_failure(aws, error)
            return 1
        return conclude({**figures, "seconds": round(time.monotonic() - started, 1)}, shape)


def conclude(figures: Figures, shape: Shape) -> int:
    """Write the report, print it, and return the exit status.

    Args:
        figures: of the run.
        shape: says what they must come to.
    """
    wrong = complaints(figures, shape.least)
    file = write(NAME, {**figures, "complaints": wrong})
    console.print(_table(figures))
    for line in wrong:
        console.print(f"[red]{line}")
    console.print(f"[dim]{file}", highlight=False)
    return 1 if wrong else 0


def _table(figures: Figures) -> Table:
    table = Table("soak", title_justify="left")
    table.add_column("figure", justify="right")
    for name, figure in figures.items():
        if isinstance(figure, int | float):
            colour = ("red" if figure else "green") if name in FAULT_FIGURES else "default"
            table.add_row(name.replace("_", " "), f"[{colour}]{figure}")
    return table
