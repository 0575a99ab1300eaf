"""Scenario `change`: changes the deployed shop under traffic, redrives, audits and reports.

Like `demo.audit`, `count_change` shares no code with the library.
"""

import json
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from threading import Event
from typing import Any

from demo.audit import Evidence, Findings, Manifest, audit
from demo.audit.evidence import number, text
from demo.audit.orders import RESERVATION_STATUS, expected_end
from demo.background import background
from demo.quiescence import wait_until, wait_until_empty
from demo.report import console, report_figures, step
from demo.shop import Shop, deployed_values
from demo.traffic.command import stock_articles
from demo.traffic.plan import EVENT_TYPE, SampleOrder, TrafficPlan, build_manifest, plan_traffic
from demo.traffic.publisher import published
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment

APP = "python3 -m demo.scenarios.change.app"
REMOVED = "loyalty"
"""The consumer that is removed; it gives a point for each order."""

Letter = tuple[str, str]
"""A dead letter: its consumer, and its order."""

_TIMEOUT_SECONDS = 300.0
_ORDERS = 1200
"""More than are sent before the last change."""
_PERIOD_SECONDS = 0.25
_ORDERS_PER_DUPLICATE = 2
_LETTERS = 10
"""Dead letters to wait for before the faulty version is rolled back."""
_MINIMUM = {"orders_sent": 100, "resent": 50, "dead_lettered": _LETTERS}
_LABELS = {
    "orders_sent": "orders sent",
    "resent": "sent once more",
    "dead_lettered": "dead-lettered on the way",
    "seconds": "seconds",
    "lost": "lost",
    "doubled": "doubled",
    "letters_lost": "dead letters lost",
    "unfinished": "unfinished",
}


def change(shop: Shop, deploy_seconds: float) -> bool:
    """Change the shop under traffic, and write `reports/change.json`.

    Returns:
        Whether nothing was lost, doubled or left unfinished, and enough happened.
    """
    started = time.monotonic()
    changing = _ChangingShop(shop)
    retiring = ("inventory", REMOVED)
    few = _ORDERS // 20
    plan = plan_traffic(count=_ORDERS, refusals=few, declines=few, seed=secrets.randbits(48))
    dynamodb, stock = shop.aws.client("dynamodb"), shop.deployment.table("stock")
    stock_articles(dynamodb, stock, plan.stock, lambda: None)
    sns, topic = shop.aws.client("sns"), shop.deployment.ingress_topic_arn
    traffic = _SteadyTraffic(sns, topic, plan)
    with background("traffic", traffic.send):
        changing.deploy("faulty", "a faulty version of inventory")
        changing.wait_for_letters("inventory", _LETTERS)
        changing.deploy("before", "the version before it again")
        changing.deploy("renaming", "warehouse beside inventory, which is its old name")
        due = {order.order_id for order in traffic.sent}
        changing.deploy("retiring", f"inventory and {REMOVED} retire")
        with step(f"draining {' and '.join(retiring)}"):
            queues = changing.shop.queues(*retiring)
            wait_until_empty(shop.aws.client("sqs"), queues, timeout=_TIMEOUT_SECONDS)
        evidence = changing.evidence()
        boxes = evidence.dead_letters.items()
        seen = {
            letter for name, url in boxes for letter in letters_of(name, evidence.messages(url))
        }
        changing.redrive(*retiring)
        changing.deploy("after", f"inventory and {REMOVED} removed")
    changing.shop.wait_until_processed()
    with step("auditing"):
        figures = changing.audit(traffic, due, seen)
    counts = {
        "orders_sent": len(traffic.sent),
        "resent": len(traffic.resent),
        "dead_lettered": len(seen),
        "seconds": round(time.monotonic() - started + deploy_seconds, 1),
    }
    return report_figures(
        "change",
        "Changes under traffic, from tables, queues, provider and mailboxes",
        _LABELS,
        {**figures, **counts},
        figures,
        good="nothing was lost, doubled or left unfinished",
        bad="a change did harm",
        minimum=_MINIMUM,
    )


@dataclass
class _SteadyTraffic:
    """Orders at an even pace, with late duplicates.

    Attributes:
        sns: boto3 client.
        topic_arn: the ingress topic.
        plan: the orders to send; the traffic ends with them.
        sent: orders that the topic has accepted until now, in their order.
        resent: orders that were sent once more, at any time after the first.
    """

    sns: Any
    topic_arn: str
    plan: TrafficPlan
    sent: list[SampleOrder] = field(default_factory=list)
    resent: list[SampleOrder] = field(default_factory=list)

    def send(self, over: Event) -> None:
        """Send until the event is set."""
        random = Random(self.plan.seed)
        for order in random.sample(self.plan.orders, len(self.plan.orders)):
            if over.wait(_PERIOD_SECONDS):
                return
            self._publish(order, self.sent)
            if len(self.sent) % _ORDERS_PER_DUPLICATE == 0:
                self._publish(random.choice(self.sent), self.resent)

    def _publish(self, order: SampleOrder, done: list[SampleOrder]) -> None:
        self.sns.publish(TopicArn=self.topic_arn, **published(order.body, EVENT_TYPE))
        done.append(order)


class _ChangingShop:
    """The shop while it is changed.

    Attributes:
        shop: the shop as it is after the last change.
    """

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self._points = shop.deployment.table("points")  # removed with its consumer
        self._sqs = shop.aws.client("sqs")

    def deploy(self, phase: str, what: str) -> None:
        """Deploy the registry of a phase of `demo.scenarios.change.app`."""
        with step(f"deploying under traffic: {what}"):
            aws, payment_api = self.shop.aws, self.shop.sandbox.url
            file = aws.state_dir / f"{phase}.json"
            values = deployed_values(aws, file, app=APP, payment_api=payment_api, phase=phase)
            deployment = Deployment.of(self.shop.deployment.service, values)
            self.shop = replace(self.shop, deployment=deployment)

    def wait_for_letters(self, consumer: str, number: int) -> None:
        """Wait until a consumer has dead-lettered so many messages."""
        url = self.shop.deployment.consumer(consumer).dead_letter_url
        with step(f"waiting for {number} dead letters"):
            wait_until(
                f"{number} dead letters",
                lambda: depth(self._sqs, url).total >= number,
                timeout=_TIMEOUT_SECONDS,
            )

    def redrive(self, *consumers: str) -> None:
        """Redrive the dead letters of consumers, and wait until they are processed."""
        letters = [self.shop.deployment.consumer(name).dead_letter_url for name in consumers]
        for name, url in zip(consumers, letters, strict=True):
            if depth(self._sqs, url).total:
                self.shop.run("once.ops", "dlq", "redrive", "--consumer", name, "--yes")
        with step("waiting until the redriven letters are processed"):
            urls = [*self.shop.queues(*consumers), *letters]
            wait_until_empty(self._sqs, urls, timeout=_TIMEOUT_SECONDS)

    def evidence(self) -> Evidence:
        """Return the evidence for an audit, with the table of the consumer that is removed."""
        evidence = self.shop.evidence()
        return replace(evidence, tables={**evidence.tables, "points": self._points})

    def audit(self, traffic: _SteadyTraffic, due: set[str], seen: set[Letter]) -> dict[str, int]:
        """Return the figures that must be 0; see `ChangeEvidence` for `due` and `seen`."""
        sent = replace(traffic.plan, orders=traffic.sent, late=traffic.resent)
        deployment = self.shop.deployment
        topic, consumers = deployment.ingress_topic_arn, deployment.consumers
        manifest = build_manifest(sent, topic=topic, consumers=consumers, seconds=0.0)
        evidence = self.evidence()
        findings = audit(manifest, evidence)
        # Some stay for a reason, such as an e-mail of unknown outcome.
        for reason, times in sorted(findings.quarantined_by_reason.items()):
            if times:
                console.print(f"dead letters that a person decides about, {reason}: {times}")
        left = self._left(evidence)
        known = ChangeEvidence(due=due, seen=seen, left=left)
        return count_change(findings, manifest, evidence, known)

    def _left(self, evidence: Evidence) -> int:
        """Return the number of messages in all queues but those of which the audit has read."""
        found = self._sqs.list_queues().get("QueueUrls", [])
        urls = {*found} - {*evidence.dead_letters.values()}
        left = {url.rpartition("/")[2]: depth(self._sqs, url).total for url in urls}
        for name, times in left.items():
            if times:
                console.print(f"{name} still holds {times}", highlight=False)
        return sum(left.values())


@dataclass(frozen=True, kw_only=True)
class ChangeEvidence:
    """Facts about a change that the state of the systems after it does not show.

    Attributes:
        due: orders that were sent before the removal began, so that each must have its point.
        seen: dead letters that existed on the way.
        left: messages that are still in a queue, without the dead letters.
    """

    due: Collection[str]
    seen: Collection[Letter]
    left: int


def count_change(
    findings: Findings, manifest: Manifest, evidence: Evidence, change: ChangeEvidence
) -> dict[str, int]:
    """Return the figures that must be 0, by their key in the report."""
    items = evidence.by_key("points", "order_id").items()
    points = {name: number(item, "points") for name, item in items}
    ended = _ended(manifest, evidence)
    return {
        "lost": findings.lost + len({*change.due} - points.keys()),
        "doubled": findings.doubled + sum(count - 1 for count in points.values()),
        # The order of a lost letter lacks what the consumer of the letter does for it.
        "letters_lost": sum(
            order not in (points if consumer == REMOVED else ended)
            for consumer, order in change.seen
        ),
        "unfinished": findings.unfinished + findings.unexplained_dead_letters + change.left,
    }


def letters_of(consumer: str, messages: Iterable[Mapping[str, Any]]) -> set[Letter]:
    """Return the dead letters of a consumer, by the order that each is about."""
    return {(consumer, str(json.loads(each["Body"])["data"]["order_id"])) for each in messages}


def _ended(manifest: Manifest, evidence: Evidence) -> set[str]:
    """Return the orders of which every consumer has done its part."""
    orders = evidence.by_key("orders", "order_id")
    reservations = evidence.by_key("reservations", "order_id")
    return {
        order["order_id"]
        for order in manifest["orders"]
        if text(orders.get(order["order_id"], {}), "status") == expected_end(order)
        and text(reservations.get(order["order_id"], {}), "status")
        == RESERVATION_STATUS[expected_end(order)]
    }
