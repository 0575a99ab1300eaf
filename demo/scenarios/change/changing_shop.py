"""The shop while it is changed: deployments, redrives, and what is noted on the way."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from demo.audit import Evidence, Findings, audit
from demo.commands import run_once
from demo.console import console, step
from demo.deployed_shop import collect_evidence
from demo.payment_sandbox import PaymentSandbox
from demo.quiescence import wait_until, wait_until_empty
from demo.scenarios.change.change_audit import ChangeEvidence, Letter, count_change, letters_of
from demo.scenarios.change.steady_traffic import SteadyTraffic, steady_traffic
from demo.traffic.manifest import build_manifest
from demo.traffic.traffic_plan import plan_traffic
from emulator.cdk_cli import deploy
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment

APP = "python3 -m demo.scenarios.change.app"
TIMEOUT_SECONDS = 300.0

_ORDERS = 1200
"""More than are sent before the last change."""
_BATCH = 25
"""Most items of one BatchWriteItem."""


class ChangingShop:
    """The shop while it is changed.

    Attributes:
        deployment: the shop as it is after the last change.
        points: physical name of the table of the consumer that is removed.
    """

    def __init__(self, aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> None:
        self.deployment = deployment
        self.points = deployment.table("points")  # a stack without the consumer has no such output
        self._aws, self._sandbox = aws, sandbox
        self._sqs = aws.client("sqs")

    @contextmanager
    def traffic(self) -> Iterator[SteadyTraffic]:
        """Send orders until the context ends."""
        few = _ORDERS // 20
        plan = plan_traffic(count=_ORDERS, refusals=few, declines=few, seed=secrets.randbits(48))
        self._stock(plan.stock)
        sns, topic = self._aws.client("sns"), self.deployment.ingress_topic_arn
        with steady_traffic(sns, topic, plan) as traffic:
            yield traffic

    def deploy(self, phase: str, what: str) -> None:
        """Deploy the registry of a phase of `demo.scenarios.change.app`."""
        with step(f"deploying under traffic: {what}"):
            context = {"payment_api": self._sandbox.url, "phase": phase}
            outputs = self._aws.state_dir / f"{phase}.json"
            stacks = deploy(self._aws, app=APP, context=context, outputs=outputs)
            values = {name: value for stack in stacks.values() for name, value in stack.items()}
            self.deployment = Deployment.of(self.deployment.service, values)

    def wait_for_letters(self, consumer: str, number: int) -> None:
        """Wait until a consumer has dead-lettered so many messages."""
        url = self.deployment.consumer(consumer).dead_letter_url
        with step(f"waiting for {number} dead letters"):
            wait_until(
                f"{number} dead letters",
                lambda: depth(self._sqs, url).total >= number,
                timeout=TIMEOUT_SECONDS,
            )

    def drain(self, *consumers: str) -> None:
        """Wait until the queues of retiring consumers are empty."""
        with step(f"draining {' and '.join(consumers)}"):
            wait_until_empty(self._sqs, self._queues(consumers), timeout=TIMEOUT_SECONDS)

    def redrive(self, *consumers: str) -> None:
        """Redrive the dead letters of consumers, and wait until they are processed."""
        letters = [self.deployment.consumer(name).dead_letter_url for name in consumers]
        for name, url in zip(consumers, letters, strict=True):
            if depth(self._sqs, url).total:
                run_once(self._aws, "dlq", "redrive", "--consumer", name, "--yes")
        with step("waiting until the redriven letters are processed"):
            urls = [*self._queues(consumers), *letters]
            wait_until_empty(self._sqs, urls, timeout=TIMEOUT_SECONDS)

    def letters(self) -> set[Letter]:
        """Return the dead letters of all consumers. They stay in their queues."""
        evidence = self._evidence()
        return {
            letter
            for consumer, url in evidence.dead_letters.items()
            for letter in letters_of(consumer, evidence.messages(url))
        }

    def audit(self, traffic: SteadyTraffic, due: set[str], seen: set[Letter]) -> dict[str, int]:
        """Return the figures that must be 0; see `ChangeEvidence` for `due` and `seen`."""
        manifest = build_manifest(
            traffic.sent_plan(),
            topic=self.deployment.ingress_topic_arn,
            consumers=self.deployment.consumers,
            seconds=0.0,
        )
        evidence = self._evidence()
        findings = audit(manifest, evidence)
        _print_explained(findings)
        known = ChangeEvidence(due=due, seen=seen, left=self._left(evidence))
        return count_change(findings, manifest, evidence, known)

    def _evidence(self) -> Evidence:
        evidence = collect_evidence(self._aws, self.deployment, self._sandbox.url)
        return replace(evidence, tables={**evidence.tables, "points": self.points})

    def _queues(self, consumers: tuple[str, ...]) -> list[str]:
        parts = map(self.deployment.consumer, consumers)
        return [url for part in parts for url in part.queue_urls]

    def _left(self, evidence: Evidence) -> int:
        """Return the number of messages in all queues but those of which the audit has read."""
        found = self._sqs.list_queues().get("QueueUrls", [])
        urls = {*found} - {*evidence.dead_letters.values()}
        left = {url.rpartition("/")[2]: depth(self._sqs, url).total for url in urls}
        for name, number in left.items():
            if number:
                console.print(f"{name} still holds {number}", highlight=False)
        return sum(left.values())

    def _stock(self, stock: Mapping[str, int]) -> None:
        dynamodb, table = self._aws.client("dynamodb"), self.deployment.table("stock")
        puts = [
            {"PutRequest": {"Item": {"sku": {"S": sku}, "available": {"N": str(available)}}}}
            for sku, available in stock.items()
        ]
        for start in range(0, len(puts), _BATCH):
            answer = dynamodb.batch_write_item(RequestItems={table: puts[start : start + _BATCH]})
            if answer.get("UnprocessedItems"):
                raise RuntimeError("DynamoDB did not write the stock")


def _print_explained(findings: Findings) -> None:
    """Print the dead letters that stay for a reason, such as an e-mail of unknown outcome."""
    for reason, number in sorted(findings.quarantined_by_reason.items()):
        if number:
            console.print(f"dead letters that a person decides about, {reason}: {number}")
