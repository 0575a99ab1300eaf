"""Scenario `soak`: orders for minutes, with more kills, and with calls to AWS cut off."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from demo.audit import Findings, audit
from demo.dropped_calls import Drop, Drops, dropping
from demo.kills import kill_at_random
from demo.payment_sandbox import FaultRates, PaymentFault
from demo.report import FAULT_FIGURES, report_figures, step, write_report
from demo.rounds import send_rounds
from demo.scenarios import drawn_seed
from demo.scenarios.orders import TrafficRun, send_traffic
from demo.shop import Shop
from once.names import Reason
from once.ops.dead_letters.dead_letter import DIED

SAFE_REASONS = (DIED, Reason.UNFINISHED, Reason.RETRIES_EXHAUSTED)
"""Reasons of dead letters that may be redriven unchanged."""
_TIMEOUT_SECONDS = 900.0
_DIED = "errorMessage=Worker process died"


@dataclass(frozen=True)
class Shape:
    """The amount of traffic and of faults.

    Attributes:
        traffic: the numbers of messages by kind.
        calls_a_kill: mean number of the functions' calls between two kills.
        drops: the share of calls to AWS that are cut off in each way.
        charges: the share of charges with each fault of the provider.
        least: the minimum of figures; a run with less proves nothing.
    """

    traffic: Mapping[str, int]
    calls_a_kill: float
    drops: Mapping[Drop, float]
    charges: Mapping[PaymentFault, float]
    least: Mapping[str, int]


SOAK = Shape(
    traffic={
        "count": 2500,
        "repeats": 750,
        "altered": 25,
        "borrowed": 25,
        "duplicates": 2500,
        "conflicts": 5,
        "malformed": 5,
        "refusals": 50,
        "declines": 50,
    },
    calls_a_kill=45,
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
        "commands_repeated": 700,
        "kills": 200,
        "kills_in_mid_batch": 50,
        "drops": 200,
        "answers_lost": 100,
        "charge_answers_dropped": 50,
    },
)


def soak(shop: Shop, deploy_seconds: float) -> bool:
    """Send 5,000 messages while processes are killed and calls cut off; write `reports/soak.json`.

    Returns:
        Whether the audit is clean and enough faults occurred.
    """
    started = time.monotonic()
    write_report("soak", {"complaints": ["the run was interrupted"]})
    figures = play(shop, SOAK, drawn_seed())
    seconds = round(deploy_seconds + time.monotonic() - started, 1)
    return conclude({**figures, "seconds": seconds}, SOAK.least)


def play(shop: Shop, shape: Shape, seed: int) -> dict[str, Any]:
    """Send traffic under faults until it is processed, redrive dead letters, and audit.

    Returns:
        The figures of the report.

    Raises:
        OpsError: messages could not be sent.
    """
    shop.sandbox.faults = FaultRates(seed=seed, shares=shape.charges)
    functions = [shop.checkout, *shop.functions(*shop.deployment.consumers)]
    every = shape.calls_a_kill
    with (
        dropping(shop.aws, functions, Drops(seed, shape.drops)) as calls,
        kill_at_random(shop.aws, functions, every=every, clock=calls.total, seed=seed) as killed,
    ):

        def send(number: int) -> TrafficRun:
            later = {name: -(-amount // 10) for name, amount in shape.traffic.items()}
            return send_traffic(shop, later if number else shape.traffic, _TIMEOUT_SECONDS)

        def count(_: object) -> dict[str, int]:
            calls.total()
            dropped = [*calls.dropped.items()]  # the kills' clock adds to them
            return {
                "kills": killed.total(),
                "kills_in_mid_batch": shop.aws.child.log.read_text().count(_DIED),
                "drops": sum(number for _, number in dropped),
                "answers_lost": sum(n for (how, _), n in dropped if how is Drop.ANSWER_LOST),
                "charge_answers_dropped": shop.sandbox.fired[PaymentFault.DROP],
            }

        sent = TrafficRun.joined(send_rounds(send, count, shape.least))
    shop.sandbox.faults = FaultRates()
    sent_back = redrive_safe(shop)
    with step("auditing"):
        findings = audit(sent.manifest, shop.evidence())
    by_kind: Counter[str] = Counter()
    by_operation: Counter[str] = Counter()
    for (drop, operation), number in calls.dropped.items():
        by_kind[drop] += number
        by_operation[operation] += number
    return {
        "seed": seed,
        **audit_figures(findings),
        **count(()),
        "kills_by_function": dict(killed),
        "calls": calls.total(),
        "drops_by_kind": dict(by_kind),
        "drops_by_operation": dict(by_operation),
        "sent_back": sent_back,
    }


def audit_figures(findings: Findings) -> dict[str, Any]:
    """Return the audit's figures, by their keys in the report."""
    counted = ("distinct", "commands_repeated", "deliveries", "effects", "charges", "emails")
    return {
        "sends": findings.sent,
        "quarantined": dict(findings.quarantined_by_reason),
        **{name: getattr(findings, name) for name in (*counted, *FAULT_FIGURES)},
    }


def redrive_safe(shop: Shop) -> int:
    """Redrive the dead letters whose only cause is too many kills, and return their number."""
    file = shop.aws.state_dir / "letters.json"
    with file.open("wb") as output:
        shop.once("dlq", "list", "--json", stdout=output)
    reasons = Counter(
        dead_letter["reason"] or DIED for dead_letter in json.loads(file.read_text())["letters"]
    )
    for reason in filter(reasons.get, SAFE_REASONS):
        # The command fails if it keeps a dead letter; the audit finds that dead letter.
        with suppress(subprocess.CalledProcessError):
            shop.once("dlq", "redrive", "--yes", "--reason", reason, "--rate", "50")
    shop.wait_until_processed()
    return sum(reasons[reason] for reason in SAFE_REASONS)


def conclude(figures: Mapping[str, Any], least: Mapping[str, int]) -> bool:
    """Write and print the report; return whether nothing is wrong and enough faults occurred."""
    counted = [name for name, each in figures.items() if not isinstance(each, dict)]
    labels = {name: name.replace("_", " ") for name in counted}
    good = "Nothing was lost or doubled."
    return report_figures("soak", "soak", labels, figures, FAULT_FIGURES, good=good, minimum=least)
