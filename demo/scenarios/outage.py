"""`make demo SCENARIO=outage`: dead letters say why, are sent back, and all ends well."""

import secrets

from demo.audit import audit
from demo.deployed_shop import place_of
from demo.payment_sandbox import Fault, Faults, PaymentSandbox
from demo.report import report
from demo.run import console, enough, operate, rest, send, step
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment
from once.ops.aws.queue_depth import depth

TRAFFIC = ("--count", "60", "--duplicates", "30%", "--conflicts", "3", "--malformed", "5",
           "--refusals", "5", "--declines", "5")  # fmt: skip
DOWN = {Fault.UNAVAILABLE: 0.9, Fault.DROP_BEFORE: 0.1}
"""How the provider answers while it is down."""
KILLS = [Fault.HOLD_BEFORE] * 5
"""Its last answers before that: whoever waits for one is killed, and never learns of the charge."""
LEAST = {"functions_killed": 3, "dead_lettered": 30}


def outage(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    """Let the provider be down until messages are given up, mend it, and send them back.

    Returns:
        Whether the audit is clean in the end, and enough had gone wrong for that to say something.
    """
    sandbox.script(*KILLS)
    sandbox.faults = Faults(seed=secrets.randbits(32), shares=DOWN)
    console.print("the payment provider is down")
    run = send(aws, sandbox, deployment, TRAFFIC)
    dead = depth(aws.client("sqs"), deployment.consumers["payments"].dead_letter_url).total
    operate(aws, "dlq", "list")
    sandbox.faults = Faults()
    console.print("the payment provider is up again")
    operate(aws, "dlq", "redrive", "--consumer", "payments", "--rate", "50")
    rest(aws, sandbox, deployment)
    with step("auditing"):
        findings = audit(run.manifest, place_of(aws, deployment, sandbox.url))
    more = {
        "functions_killed": run.killed,
        "dead_lettered": dead,
        "deploy_seconds": round(deploy_seconds, 1),
    }
    report(findings, more, console, "outage")
    return findings.clean and enough(more, LEAST)
