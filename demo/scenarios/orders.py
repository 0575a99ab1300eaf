"""Scenarios `faults` and `outage`: orders under faults, processed to the end and audited."""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from demo.audit import Manifest, audit
from demo.kills import kill_processes
from demo.payment_sandbox import FaultRates, PaymentFault
from demo.report import console, report_orders, step
from demo.shop import Shop
from demo.traffic.command import send_orders
from demo.traffic.plan import plan_traffic
from demo.traffic.publisher import send_samples
from once.ops.aws.clients import depth

MANIFEST = "manifest.json"
"""The file of the last manifest, in the state of the embedded AWS."""
_TRAFFIC = {
    "count": 500,
    "duplicates": 150,
    "conflicts": 5,
    "malformed": 5,
    "refusals": 10,
    "declines": 15,
}
_SHARES = {
    PaymentFault.DROP: 0.18,
    PaymentFault.DROP_BEFORE: 0.03,
    PaymentFault.DELAY: 0.03,
    PaymentFault.ERROR_BEFORE: 0.03,
    PaymentFault.ERROR_AFTER: 0.03,
    PaymentFault.UNAVAILABLE: 0.03,
    PaymentFault.RATE_LIMITED: 0.03,
    PaymentFault.HOLD_BEFORE: 0.05,
    PaymentFault.HOLD_AFTER: 0.05,
}
"""Share of the charges by fault. The process that waits for a held charge is killed."""
_MAX_HELD = {PaymentFault.HOLD_BEFORE: 16, PaymentFault.HOLD_AFTER: 16}
_TIMEOUT_SECONDS = 300.0
_MINIMUM = {"charge_answers_dropped": 50, "functions_killed": 20}

_OUTAGE_TRAFFIC = {
    "count": 60,
    "duplicates": 18,
    "conflicts": 3,
    "malformed": 5,
    "refusals": 5,
    "declines": 5,
}
_DOWN = {PaymentFault.UNAVAILABLE: 0.9, PaymentFault.DROP_BEFORE: 0.1}
"""Answers of the provider while it is down."""
_HELD_FIRST = [PaymentFault.HOLD_BEFORE] * 5
"""Last answers before the outage. The processes that wait for them are killed, so that charges
exist of which the service has no answer."""
_OUTAGE_MINIMUM = {"functions_killed": 3, "dead_lettered": 30}


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
    shop: Shop, numbers: Mapping[str, int], timeout: float = _TIMEOUT_SECONDS
) -> TrafficRun:
    """Send orders, and sample events; wait until they are processed.

    Args:
        shop: the service. A process that waits for a held charge of its provider is killed.
        numbers: the numbers of messages by kind, as `plan_traffic` takes them.
        timeout: seconds in which the first messages must be processed.

    Raises:
        OpsError: a message was not accepted, or not processed in time.
    """
    charging = shop.deployment.consumers["payments"].function_name
    *others, relay = shop.functions(*(n for n in shop.deployment.consumers if n != "payments"))
    planned = plan_traffic(**numbers, seed=secrets.randbits(48))
    started = time.monotonic()
    with kill_processes(shop.aws, shop.sandbox, charging, [relay, *others]) as killed:
        sent = send_orders(planned, shop.deployment, shop.aws.client, timeout)
        samples = send_samples(shop.aws.client("sns"), shop.deployment, planned.seed)
        shop.wait_until_processed()
    seconds = time.monotonic() - started
    (shop.aws.state_dir / MANIFEST).write_text(json.dumps(sent))
    return TrafficRun({**sent, "samples": samples}, seconds, killed.total())


def faults(shop: Shop, deploy_seconds: float) -> bool:
    """Send 500 orders under every kind of fault, and write `reports/demo.json`.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """
    shop.sandbox.faults = FaultRates(seed=secrets.randbits(32), shares=_SHARES, limits=_MAX_HELD)
    run = send_traffic(shop, _TRAFFIC)
    with step("auditing"):
        findings = audit(run.manifest, shop.evidence())
    figures = {
        "charge_answers_dropped": shop.sandbox.fired[PaymentFault.DROP],
        "functions_killed": run.killed,
        "messages_per_second": round(findings.deliveries / run.seconds, 1),
        "deploy_seconds": round(deploy_seconds, 1),
    }
    return report_orders(findings, figures, _MINIMUM)


def outage(shop: Shop, deploy_seconds: float) -> bool:
    """Send orders while the payment provider is down, and write `reports/outage.json`.

    Messages are dead-lettered, and redriven once the provider is up again.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """
    shop.sandbox.script(*_HELD_FIRST)
    shop.sandbox.faults = FaultRates(seed=secrets.randbits(32), shares=_DOWN)
    console.print("the payment provider is down")
    run = send_traffic(shop, _OUTAGE_TRAFFIC)
    dead_letters = shop.deployment.consumers["payments"].dead_letter_url
    dead = depth(shop.aws.client("sqs"), dead_letters).total
    shop.once("dlq", "list")
    shop.sandbox.faults = FaultRates()
    console.print("the payment provider is up again")
    redrive = ("dlq", "redrive", "--consumer", "payments", "--rate", "50", "--yes")
    shop.once(*redrive)
    shop.wait_until_processed()
    with step("auditing"):
        findings = audit(run.manifest, shop.evidence())
    figures = {
        "functions_killed": run.killed,
        "dead_lettered": dead,
        "deploy_seconds": round(deploy_seconds, 1),
    }
    return report_orders(findings, figures, _OUTAGE_MINIMUM, "outage")
