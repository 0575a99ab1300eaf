"""One soak of a deployed service: traffic under faults, recovery, audit."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from demo.audit import Findings, audit
from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox
from demo.report import FAULT_FIGURES, step
from demo.scenarios.orders import send_traffic
from demo.shop import Shop
from emulator.embedded_aws import EmbeddedAws
from once.names import RELAY, Reason
from once.ops.aws.clients import total_depth
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters.letter import DIED
from proof.soak.background import background, print_progress
from proof.soak.drops import Drop, Drops
from proof.soak.kills import ProcessKills
from proof.soak.proxy import Proxy, proxying, rerouted

SAFE_REASONS = (DIED, Reason.UNFINISHED, Reason.RETRIES_EXHAUSTED)
"""Reasons of dead letters that may be redriven unchanged."""


@dataclass(frozen=True)
class Shape:
    """The amount of traffic and of faults.

    Attributes:
        traffic: options of `python -m demo send`.
        calls_a_kill: mean number of the functions' calls between two kills.
        drops: the share of calls to AWS that are cut off in each way.
        charges: the share of charges with each fault of the provider.
        least: the minimum of figures; a run with less proves nothing.
    """

    traffic: Sequence[str]
    calls_a_kill: float
    drops: Mapping[Drop, float]
    charges: Mapping[PaymentFault, float]
    least: Mapping[str, int]


def play(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, shape: Shape, seed: int
) -> dict[str, Any]:
    """Send traffic under faults until it is processed, redrive dead letters, and audit.

    Args:
        aws: where the service runs.
        sandbox: its payment provider.
        deployment: the service.
        shape: the amount of traffic and faults.
        seed: of the faults.

    Returns:
        The figures of the report.

    Raises:
        subprocess.CalledProcessError: messages could not be sent.
    """
    shop = Shop(aws, sandbox, deployment)
    sandbox.faults = FaultRates(seed=seed, shares=shape.charges)
    with _faults(aws, deployment, shape, seed) as (proxy, kills):
        run = send_traffic(shop, shape.traffic)
    sandbox.faults = FaultRates()
    sent_back = redrive_safe(shop)
    with step("auditing"):
        findings = audit(run.manifest, shop.evidence())
    return {
        "seed": seed,
        **audit_figures(findings),
        "kills": kills.killed.total(),
        "kills_by_function": dict(kills.killed),
        "kills_in_mid_batch": aws.child.log.read_text().count("errorMessage=Worker process died"),
        **_drop_figures(proxy),
        "charge_answers_dropped": sandbox.fired[PaymentFault.DROP],
        "sent_back": sent_back,
    }


def audit_figures(findings: Findings) -> dict[str, Any]:
    """Return the audit's figures, by their keys in the report."""
    counted = ("distinct", "deliveries", "effects", "charges", "emails", *FAULT_FIGURES)
    return {
        "sends": findings.sent,
        "quarantined": dict(findings.quarantined_by_reason),
        **{name: getattr(findings, name) for name in counted},
    }


def redrive_safe(shop: Shop) -> int:
    """Redrive the dead letters whose only cause is too many kills, as an operator would.

    Returns:
        The number of these dead letters.
    """
    file = shop.aws.state_dir / "letters.json"
    with file.open("wb") as output:
        shop.run("once.ops", "dlq", "list", "--json", stdout=output)
    reasons = Counter(
        letter["reason"] or DIED for letter in json.loads(file.read_text())["letters"]
    )
    for reason in filter(reasons.get, SAFE_REASONS):
        # The command fails if it keeps a letter; the audit finds that letter.
        with suppress(subprocess.CalledProcessError):
            shop.run("once.ops", "dlq", "redrive", "--reason", reason, "--rate", "50")
    shop.wait_until_processed()
    return sum(reasons[reason] for reason in SAFE_REASONS)


@contextmanager
def _faults(
    aws: EmbeddedAws, deployment: Deployment, shape: Shape, seed: int
) -> Iterator[tuple[Proxy, ProcessKills]]:
    functions = [consumer.function_name for consumer in deployment.consumers.values()]
    functions.append(f"{deployment.service}-{RELAY}")
    with proxying(aws, Drops(seed, shape.drops)) as proxy:
        kills = ProcessKills(aws, functions, proxy.passed.total, shape.calls_a_kill, seed)
        describe = partial(_describe, aws, deployment, proxy, kills)
        with (
            rerouted(aws, functions, proxy),
            background("kills", kills.run),
            background("progress", partial(print_progress, describe)),
        ):
            yield proxy, kills


def _describe(aws: EmbeddedAws, deployment: Deployment, proxy: Proxy, kills: ProcessKills) -> str:
    sqs = aws.client("sqs")
    queues = deployment.consumers.values()
    left = sum(total_depth(sqs, consumer.queue_urls).total for consumer in queues)
    dropped, passed = proxy.dropped.total(), proxy.passed.total()
    return (
        f"{left} messages left, {kills.killed.total()} processes killed, "
        f"{dropped} of {dropped + passed} calls cut off"
    )


def _drop_figures(proxy: Proxy) -> dict[str, Any]:
    by_kind: Counter[str] = Counter()
    by_operation: Counter[str] = Counter()
    for (drop, operation), number in proxy.dropped.items():
        by_kind[drop] += number
        by_operation[operation] += number
    return {
        "calls": proxy.passed.total() + proxy.dropped.total(),
        "drops": proxy.dropped.total(),
        "answers_lost": by_kind[Drop.ANSWER_LOST],
        "drops_by_kind": dict(by_kind),
        "drops_by_operation": dict(by_operation),
    }
