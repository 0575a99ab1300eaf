"""Traffic run: sends orders while function processes are killed, and waits for the end."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from demo.audit import Manifest
from demo.commands import run_module
from demo.console import print_failure, step
from demo.deployed_shop import collect_evidence
from demo.payment_sandbox import PaymentSandbox
from demo.process_kills import kill_processes
from demo.quiescence import wait_until_quiescent
from demo.traffic.sample_events import send_samples
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment
from once.schema import RELAY

_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class TrafficRun:
    """A finished run.

    Attributes:
        manifest: the messages that were sent.
        seconds: duration, from the first message until the service was quiescent.
        killed: number of function processes that were killed.
    """

    manifest: Manifest
    seconds: float
    killed: int


def send_traffic(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, options: Sequence[str]
) -> TrafficRun:
    """Send orders with `python -m demo send`, and sample events; wait until they are processed.

    Args:
        aws: the AWS that the service runs on.
        sandbox: the payment provider; a process that waits for a held charge is killed.
        deployment: the service.
        options: options of `python -m demo send`.

    Raises:
        subprocess.CalledProcessError: the orders could not be sent.
    """
    manifest = aws.state_dir / "manifest.json"
    names = {name: consumer.function_name for name, consumer in deployment.consumers.items()}
    charging = names.pop("payments")
    relay = f"{deployment.service}-{RELAY}"
    started = time.monotonic()
    with kill_processes(aws, sandbox, charging, [relay, *names.values()]) as kills:
        run_module(aws, "demo", "send", *options, "--manifest", str(manifest))
        sent = json.loads(manifest.read_text())
        samples = send_samples(aws.client("sns"), deployment, sent["seed"])
        wait_until_processed(aws, sandbox, deployment)
    seconds = time.monotonic() - started
    return TrafficRun({**sent, "samples": samples}, seconds, kills.killed.total())


def wait_until_processed(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> None:
    """Wait until the service is quiescent, at most five minutes.

    A timeout is printed and not raised: the audit then reports the unfinished orders.
    """
    with step("waiting until everything is processed") as shown:
        consumers = deployment.consumers.values()
        queues = [url for consumer in consumers for url in consumer.queue_urls]
        queues.append(deployment.sweep_queue_url)
        try:
            evidence = collect_evidence(aws, deployment, sandbox.url)
            wait_until_quiescent(evidence, queues, timeout=_TIMEOUT_SECONDS, show=shown.show)
        except TimeoutError as error:
            print_failure(aws, error)
