"""One soak of a deployed service: what is sent, what goes wrong meanwhile, what is there then."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from demo.audit import audit
from demo.commands import run_once
from demo.console import step
from demo.deployed_shop import collect_evidence
from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox
from demo.run import send_traffic, wait_until_processed
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment
from once.ops.aws.queue_depth import total_depth
from once.ops.dead_letters.queue_history import DIED
from once.schema import RELAY, Reason
from proof.soak.drops import Drop, Drops
from proof.soak.kills import Killer, killing
from proof.soak.progress import telling
from proof.soak.proxy import Proxy, proxying
from proof.soak.route import rerouted
from proof.soak.verdict import found

SPENT = (DIED, Reason.UNFINISHED, Reason.RETRIES_EXHAUSTED)
"""Why a message is given up that was only unlucky: it may be sent back as it is."""


@dataclass(frozen=True)
class Shape:
    """How much is sent, and how much goes wrong.

    Attributes:
        traffic: options of `python -m demo send`.
        calls_a_kill: after how many calls of functions one of their processes is killed.
        drops: the part of their calls to AWS that are cut off in each way.
        charges: the part of the charges that meet each fault of the provider.
        least: what the figures must come to, or the run shows nothing.
    """

    traffic: Sequence[str]
    calls_a_kill: float
    drops: Mapping[Drop, float]
    charges: Mapping[PaymentFault, float]
    least: Mapping[str, int]


def play(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, shape: Shape, seed: int
) -> dict[str, Any]:
    """Send, kill and cut off until all is at rest, send back what was given up, and audit.

    Args:
        aws: where the service runs.
        sandbox: its payment provider.
        deployment: the service.
        shape: how much.
        seed: what chance depends on, besides the order in which things happen.

    Returns:
        The figures.

    Raises:
        subprocess.CalledProcessError: messages could not be sent.
    """
    sandbox.faults = FaultRates(seed=seed, shares=shape.charges)
    with _trouble(aws, deployment, shape, seed) as (proxy, killer):
        run = send_traffic(aws, sandbox, deployment, shape.traffic)
    sandbox.faults = FaultRates()
    unlucky = send_back(aws, sandbox, deployment)
    with step("auditing"):
        findings = audit(run.manifest, collect_evidence(aws, deployment, sandbox.url))
    return {
        "seed": seed,
        **found(findings),
        "kills": killer.killed.total(),
        "kills_by_function": dict(killer.killed),
        "kills_in_mid_batch": aws.child.log.read_text().count("errorMessage=Worker process died"),
        **_cut_off(proxy),
        "charge_answers_dropped": sandbox.fired[PaymentFault.DROP],
        "sent_back": unlucky,
    }


@contextmanager
def _trouble(
    aws: EmbeddedAws, deployment: Deployment, shape: Shape, seed: int
) -> Iterator[tuple[Proxy, Killer]]:
    functions = [consumer.function_name for consumer in deployment.consumers.values()]
    functions.append(f"{deployment.service}-{RELAY}")
    with proxying(aws, Drops(seed, shape.drops)) as proxy:
        killer = Killer(aws, functions, proxy.passed.total, shape.calls_a_kill, seed)
        so_far = partial(_so_far, aws, deployment, proxy, killer)
        with rerouted(aws, functions, proxy), killing(killer), telling(so_far):
            yield proxy, killer


def _so_far(aws: EmbeddedAws, deployment: Deployment, proxy: Proxy, killer: Killer) -> str:
    sqs = aws.client("sqs")
    queues = deployment.consumers.values()
    left = sum(total_depth(sqs, consumer.queue_urls).total for consumer in queues)
    dropped, passed = proxy.dropped.total(), proxy.passed.total()
    return (
        f"{left} messages left, {killer.killed.total()} processes killed, "
        f"{dropped} of {dropped + passed} calls cut off"
    )


def send_back(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> int:
    """Send back what was given up after too many deaths, as an operator would.

    Returns:
        How many messages had been given up so.
    """
    file = aws.state_dir / "letters.json"
    with file.open("wb") as output:
        run_once(aws, "dlq", "list", "--json", stdout=output)
    reasons = Counter(
        letter["reason"] or DIED for letter in json.loads(file.read_text())["letters"]
    )
    for reason in filter(reasons.get, SPENT):
        # What is not safe to send stays, and is found by the audit.
        with suppress(subprocess.CalledProcessError):
            run_once(aws, "dlq", "redrive", "--reason", reason, "--rate", "50")
    wait_until_processed(aws, sandbox, deployment)
    return sum(reasons[reason] for reason in SPENT)


def _cut_off(proxy: Proxy) -> dict[str, Any]:
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
