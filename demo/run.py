"""One run of the service: what is sent, what is killed meanwhile, and when all is at rest."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from demo.audit import Manifest
from demo.deployed_shop import place_of
from demo.payment_sandbox import PaymentSandbox
from demo.process_kills import killing
from demo.quiescence import wait_at_rest
from emulator.embedded_aws import ROOT, EmbeddedAws
from once.ops.aws.deployment import Deployment
from once.schema import RELAY

REST_SECONDS = 300.0

console = Console()


@dataclass(frozen=True)
class Run:
    """What was sent, and what the run did to it."""

    manifest: Manifest
    seconds: float
    killed: int


def send(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, traffic: Sequence[str]
) -> Run:
    """Send orders with the sample traffic's own command, and wait until they are worked off.

    Args:
        aws: where the service runs.
        sandbox: its payment provider; processes whose charges it holds are killed.
        deployment: the service.
        traffic: options of `python -m demo send`.

    Raises:
        subprocess.CalledProcessError: they could not be sent.
    """
    manifest = aws.state_dir / "manifest.json"
    names = {name: consumer.function_name for name, consumer in deployment.consumers.items()}
    charging = names.pop("payments")
    relay = f"{deployment.service}-{RELAY}"
    started = time.monotonic()
    with killing(aws, sandbox, charging, [relay, *names.values()]) as killer:
        run_module(aws, "demo", "send", *traffic, "--manifest", str(manifest))
        rest(aws, sandbox, deployment)
    seconds = time.monotonic() - started
    return Run(json.loads(manifest.read_text()), seconds, killer.killed.total())


def operate(aws: EmbeddedAws, *command: str, **options: Any) -> None:
    """Run the operator's command line; its output goes where this program's goes.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    run_module(aws, "once.ops", *command, **options)


def run_module(aws: EmbeddedAws, *command: str, **options: Any) -> None:
    """Run `python -m` with a module and its arguments, against an embedded AWS.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    environment = {**os.environ, **aws.environment()}
    subprocess.run(
        [sys.executable, "-m", *command], check=True, cwd=ROOT, env=environment, **options
    )


def rest(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> None:
    """Wait until everything is at rest; what still is on its way then shows in the audit."""
    with step("waiting until everything is at rest"):
        consumers = deployment.consumers.values()
        queues = [url for consumer in consumers for url in consumer.queue_urls]
        queues.append(deployment.sweep_queue_url)
        try:
            wait_at_rest(place_of(aws, deployment, sandbox.url), queues, timeout=REST_SECONDS)
        except TimeoutError as error:
            explain(aws, error)


def explain(aws: EmbeddedAws, error: Exception) -> None:
    """A function that cannot start says so in the log of the embedded AWS alone."""
    console.print(str(error), str(aws.child.failure("is still running")), sep="\n", markup=False)


def enough(figures: Mapping[str, float], least: Mapping[str, int]) -> bool:
    """Tell whether enough went wrong; a run in which nothing did shows nothing."""
    missing = {name: number for name, number in least.items() if figures[name] < number}
    for name, number in missing.items():
        console.print(f"[red]{name} is {figures[name]}, and less than {number} shows nothing")
    return not missing


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is being done, and how long it took."""
    started = time.monotonic()
    console.print(f"[dim]{what} …", highlight=False)
    yield
    console.print(f"[dim]{what}: {time.monotonic() - started:.1f} s", highlight=False)
