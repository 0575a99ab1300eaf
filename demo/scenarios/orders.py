"""Scenarios `faults` and `outage`: orders under faults, processed to the end and audited."""

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from demo.audit import Manifest, audit
from demo.kills import kill_processes
from demo.payment_sandbox import FaultRates, PaymentFault
from demo.recorded_metrics import recorded_metrics
from demo.report import console, report_orders, step
from demo.rounds import send_rounds
from demo.shop import Shop
from demo.traffic.command import send_orders
from demo.traffic.plan import plan_traffic
from demo.traffic.publisher import send_samples
from once.ops.aws.clients import depth

MANIFEST = "manifest.json"
"""The file of the last manifest, in the state of the embedded AWS."""
_TRAFFIC = {
    "count": 500,
    "repeats": 150,
    "altered": 15,
    "borrowed": 15,
    "duplicates": 150,
    "conflicts": 5,
    "malformed": 5,
    "refusals": 10,
    "declines": 15,
    "abandons": 15,
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
_HOLDS, _MAX_HELD = (PaymentFault.HOLD_BEFORE, PaymentFault.HOLD_AFTER), 16
"""The faults that are limited, each to so many in a round of traffic."""
_LISTS = ("orders", "commands", "malformed", "samples")
"""Members of a manifest that are lists."""
_TIMEOUT_SECONDS = 300.0
_MINIMUM = {
    "charge_answers_dropped": 50,
    "functions_killed": 20,
    "commands_repeated": 100,
    "answers_lost": 50,
    "due_events": 20,
    "orders_cancelled": 5,
}

_OUTAGE_TRAFFIC = {
    "count": 60,
    "repeats": 18,
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
        seconds: duration, from the first request until the service was quiescent.
        killed: number of function processes that were killed.
    """

    manifest: Manifest
    seconds: float
    killed: int

    @classmethod
    def joined(cls, runs: Sequence[Self]) -> Self:
        """Return several runs, each of orders of its own, as one."""
        manifests = [run.manifest for run in runs]
        manifest = {
            **{name: [one for each in manifests for one in each[name]] for name in _LISTS},
            "stock": {sku: number for each in manifests for sku, number in each["stock"].items()},
            "sent": sum(each["sent"] for each in manifests),
        }
        return cls(manifest, sum(run.seconds for run in runs), sum(run.killed for run in runs))


def send_traffic(
    shop: Shop, numbers: Mapping[str, int], timeout: float = _TIMEOUT_SECONDS
) -> TrafficRun:
    """Place orders, and send sample events; wait until they are processed.

    Args:
        shop: the service. A process that waits for a held charge of its provider is killed.
        numbers: the numbers of requests and messages by kind, as `plan_traffic` takes them.
        timeout: seconds in which the first orders must be processed.

    Raises:
        OpsError: a request or message was not accepted, or not processed in time.
    """
    charging = shop.deployment.consumers["payments"].function_name
    *others, relay = shop.functions(*(n for n in shop.deployment.consumers if n != "payments"))
    planned = plan_traffic(**numbers, seed=secrets.randbits(48))
    started = time.monotonic()
    turns = [shop.checkout, relay, *others]
    with kill_processes(shop.aws, shop.sandbox, charging, turns) as killed:
        sent = send_orders(planned, shop.callers, shop.deployment, shop.aws.client, timeout)
        samples = send_samples(shop.aws.client("sns"), shop.deployment, planned.seed)
        shop.wait_until_processed()
    seconds = time.monotonic() - started
    (shop.aws.state_dir / MANIFEST).write_text(json.dumps(sent))
    return TrafficRun({**sent, "samples": samples}, seconds, killed.total())


def faults(shop: Shop, deploy_seconds: float) -> bool:
    """Place 500 orders under every kind of fault, and write `reports/demo.json`.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """

    def send(_: int) -> TrafficRun:
        fired = shop.sandbox.fired
        limits = {hold: fired[hold] + _MAX_HELD for hold in _HOLDS}
        shop.sandbox.faults = FaultRates(seed=secrets.randbits(32), shares=_SHARES, limits=limits)
        return send_traffic(shop, _TRAFFIC)

    def count(runs: Sequence[TrafficRun]) -> dict[str, float]:
        return {
            "charge_answers_dropped": shop.sandbox.fired[PaymentFault.DROP],
            "functions_killed": sum(run.killed for run in runs),
        }

    runs = send_rounds(send, count, _MINIMUM)
    run = TrafficRun.joined(runs)
    with step("auditing"):
        findings = audit(run.manifest, shop.evidence())
    figures = {
        **count(runs),
        "messages_per_second": round(findings.deliveries / run.seconds, 1),
        "deploy_seconds": round(deploy_seconds, 1),
    }
    return report_orders(findings, figures, _MINIMUM)


def outage(shop: Shop, deploy_seconds: float) -> bool:
    """Send orders while the payment provider is down, and write `reports/outage.json`.

    `reports/outage-metrics.json` has its metrics.

    Messages are dead-lettered, and redriven once the provider is up again.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """
    sqs, dead_letters = (
        shop.aws.client("sqs"),
        shop.deployment.consumers["payments"].dead_letter_url,
    )

    def send(_: int) -> TrafficRun:
        shop.sandbox.script(*_HELD_FIRST)
        return send_traffic(shop, _OUTAGE_TRAFFIC)

    def count(runs: Sequence[TrafficRun]) -> dict[str, float]:
        dead = depth(sqs, dead_letters).total
        return {"functions_killed": sum(run.killed for run in runs), "dead_lettered": dead}

    with recorded_metrics(shop, "outage-metrics"):
        shop.sandbox.faults = FaultRates(seed=secrets.randbits(32), shares=_DOWN)
        console.print("the payment provider is down")
        runs = send_rounds(send, count, _OUTAGE_MINIMUM)
        run, counted = TrafficRun.joined(runs), count(runs)
        shop.once("dlq", "list")
        shop.sandbox.faults = FaultRates()
        console.print("the payment provider is up again")
        redrive = ("dlq", "redrive", "--consumer", "payments", "--rate", "50", "--yes")
        shop.once(*redrive)
        shop.wait_until_processed()
    with step("auditing"):
        findings = audit(run.manifest, shop.evidence())
    figures = {**counted, "deploy_seconds": round(deploy_seconds, 1)}
    return report_orders(findings, figures, _OUTAGE_MINIMUM, "outage")
