"""Command line of the demo: `python -m demo run` and `python -m demo send`.

`run` deploys the shop, runs one scenario, and leaves it running on request.
"""

import json
import subprocess
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from demo.report import console, print_failure, step
from demo.scenarios.change import change
from demo.scenarios.fifo import fifo
from demo.scenarios.hostile import hostile
from demo.scenarios.orders import faults, outage
from demo.scenarios.webhooks import webhooks
from demo.shop import Shop, deploy_service
from demo.traffic.command import app as traffic
from emulator.child_processes import ProcessFailed
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.ops.terminal import command_group

app = command_group(help="Try the example shop: sample traffic, faults and an audit.")
app.add_typer(traffic)


class Scenario(StrEnum):
    """A set of faults."""

    FAULTS = "faults"
    """A few of each: duplicates, lost answers, killed functions."""
    OUTAGE = "outage"
    """The payment provider is down until messages are dead-lettered; then they are redriven."""
    HOSTILE = "hostile"
    """Poison, bombs, forgeries and fatal messages ahead of healthy ones."""
    CHANGE = "change"
    """A rename, a faulty version and a removed consumer under traffic."""
    FIFO = "fifo"
    """Two FIFO consumers, one behind the other, with failing messages and killed functions."""
    WEBHOOKS = "webhooks"
    """Webhooks of four providers, sent again over days, forged ones, and killed functions."""


_FUNCTIONS: dict[Scenario, Callable[[Shop, float], bool]] = {
    Scenario.FAULTS: faults,
    Scenario.OUTAGE: outage,
    Scenario.HOSTILE: hostile,
    Scenario.CHANGE: change,
    Scenario.FIFO: fifo,
    Scenario.WEBHOOKS: webhooks,
}
"""Each takes the duration of the deployment in seconds, for its report, and returns success."""

_SHOP_ALONE = (Scenario.FAULTS, Scenario.OUTAGE)
"""The other scenarios have a CDK app of their own, with more than the shop."""


@app.command()
def run(
    scenario: Annotated[Scenario, typer.Option(envvar="SCENARIO")] = Scenario.FAULTS,
    keep: Annotated[bool, typer.Option(envvar="KEEP")] = False,
    pictures: Annotated[bool, typer.Option(envvar="PICTURES")] = False,
) -> None:
    """Deploy, send orders while faults occur, and audit.

    The exit status is 0 if the audit is clean and enough faults occurred. --keep leaves it running
    until Ctrl-C; --pictures takes those of the console in docs/img, in scenario `faults` alone.
    """
    with payment_sandbox() as sandbox, embedded_aws() as aws:
        try:
            passed = _deploy_and_run(aws, sandbox, scenario)
        except (subprocess.CalledProcessError, ProcessFailed) as error:
            print_failure(aws, error)
            raise typer.Exit(1) from None
        if pictures and scenario is Scenario.FAULTS:
            _take_pictures(aws)
        if keep:
            _keep_running(aws)
    raise typer.Exit(0 if passed else 1)


def _deploy_and_run(aws: EmbeddedAws, sandbox: PaymentSandbox, scenario: Scenario) -> bool:
    with step("cdk bootstrap, cdk deploy") as shown:
        started = time.monotonic()
        own = f"python3 -m demo.scenarios.apps {scenario}"
        app = None if scenario in _SHOP_ALONE else own
        deployment = deploy_service(aws, sandbox.url, app=app, report=shown.show)
        seconds = time.monotonic() - started
    return _FUNCTIONS[scenario](Shop(aws, sandbox, deployment), seconds)


def _take_pictures(aws: EmbeddedAws) -> None:
    # A browser's driver is needed for nothing else.
    from demo.browser import chromium, take_pictures

    manifest = json.loads((aws.state_dir / "manifest.json").read_text())
    sent_twice = next(order for order in manifest["orders"] if order["sends"] > 1)
    with step("pictures of the console"), chromium() as browser:
        take_pictures(browser, aws.environment(), sent_twice["order_id"])


def _keep_running(aws: EmbeddedAws) -> None:
    script = aws.state_dir / "aws.sh"
    script.write_text("".join(f"export {n}='{v}'\n" for n, v in aws.environment().items()))
    aws_cli = f"aws --endpoint-url {aws.endpoint}"
    console.print(f"\nIt is still running. In another shell:\n  source {script}", highlight=False)
    for example in (
        ".venv/bin/once console",
        ".venv/bin/once status",
        ".venv/bin/once outbox republish --since 1h --dry-run",
        f"{aws_cli} sqs list-queues",
        f"{aws_cli} dynamodb list-tables",
        f"{aws_cli} logs tail /aws/lambda/once-payments",
    ):
        console.print(f"  {example}", highlight=False, soft_wrap=True)
    console.print("Ctrl-C ends it.")
    try:
        aws.wait()
    except KeyboardInterrupt:
        console.print("ended")


if __name__ == "__main__":
    app(prog_name="python -m demo")
