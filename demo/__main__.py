"""Command line of the demo: `python -m demo run` and `python -m demo send`.

`run` deploys the shop, runs one scenario, and leaves it running on request.
"""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Annotated, Literal

import typer

from demo.payment_sandbox import PaymentSandbox, payment_sandbox
from demo.report import console, print_failure, step
from demo.scenarios.fifo import fifo
from demo.scenarios.hostile import hostile
from demo.scenarios.orders import MANIFEST, faults, outage
from demo.scenarios.region import region
from demo.scenarios.soak import soak
from demo.scenarios.webhooks import webhooks
from demo.shop import Shop, deploy_service
from demo.traffic.command import app as traffic
from emulator.child_processes import ProcessFailed
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.ops.errors import OpsError
from once.ops.terminal import command_group

app = command_group(help="Try the example shop: sample traffic, faults and an audit.")
app.add_typer(traffic)


_Scenario = Literal["faults", "outage", "hostile", "fifo", "webhooks", "region", "soak"]
_SCENARIOS: dict[_Scenario, Callable[[Shop, float], bool]] = {
    "faults": faults,
    "outage": outage,
    "hostile": hostile,
    "fifo": fifo,
    "webhooks": webhooks,
    "region": region,
    "soak": soak,
}
"""Each takes the duration of the deployment in seconds, for its report, and returns success."""

_PAYMENT_SECONDS = 25
"""The time to pay an order in the scenario `faults`; in the others no order is cancelled."""
_SHOP_ALONE = ("faults", "outage", "soak")
"""The other scenarios have a CDK app of their own."""


@app.command()
def run(
    scenario: Annotated[_Scenario, typer.Option(envvar="SCENARIO")] = "faults",
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
        except (subprocess.CalledProcessError, ProcessFailed, OpsError) as error:
            print_failure(aws, error)
            raise typer.Exit(1) from None
        if pictures and scenario == "faults":
            _take_pictures(aws)
        if keep:
            _keep_running(aws)
    raise typer.Exit(0 if passed else 1)


def _deploy_and_run(aws: EmbeddedAws, sandbox: PaymentSandbox, scenario: _Scenario) -> bool:
    with step("cdk bootstrap, cdk deploy") as shown:
        started = time.monotonic()
        own = f"python3 -m demo.scenarios.apps {scenario}"
        app = None if scenario in _SHOP_ALONE else own
        deployment = deploy_service(
            aws,
            sandbox.url,
            app=app,
            payment_seconds=_PAYMENT_SECONDS if scenario == "faults" else None,
            report=shown.show,
        )
        seconds = time.monotonic() - started
    return _SCENARIOS[scenario](Shop(aws, sandbox, deployment), seconds)


def _take_pictures(aws: EmbeddedAws) -> None:
    # A browser's driver is needed for nothing else.
    from demo.browser import chromium, take_pictures

    manifest = json.loads((aws.state_dir / MANIFEST).read_text())
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
