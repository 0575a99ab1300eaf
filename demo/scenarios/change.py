"""Scenario `change`: a rename, a faulty version and a removal under traffic, and an audit.

In: a deployed shop with one more consumer. Out: `reports/change.json`, and whether nothing was
lost, doubled or left unfinished. Like `demo.audit`, `count_change` shares no code with the library.
"""

import json
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
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
from demo.traffic.plan import EVENT_TYPE, SampleOrder, TrafficPlan, build_manifest, plan_traffic
from demo.traffic.publisher import published, stock_articles
from once.ops.aws.clients import depth
from once.ops.aws.deployment import Deployment

REMOVED = "loyalty"
"""The consumer that is removed; it gives a point for each order."""

DeadLetter = tuple[str, str]
"""A dead letter: its consumer, and its order."""

_TIMEOUT_SECONDS = 300.0
_ORDERS = 1200
"""More than are sent before the last change."""
_PERIOD_SECONDS = 0.25
_ORDERS_PER_DUPLICATE = 2
_DEAD_LETTERS = 10
"""Dead letters to wait for before the faulty version is rolled back."""
MINIMUM = {"orders_sent": 100, "resent": 50, "dead_lettered": _DEAD_LETTERS}
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
    figures, counts, _ = play(shop, lambda phase: f"python3 -m demo.scenarios.apps change {phase}")
    return report_figures(
        "change",
        "Changes under traffic, from tables, queues, provider and mailboxes",
        _LABELS,
        {**figures, **counts, "seconds": round(time.monotonic() - started + deploy_seconds, 1)},
        figures,
        good="nothing was lost, doubled or left unfinished",
        minimum=MINIMUM,
    )


def play(
    shop: Shop, app_of: Callable[[str], str | Path]
) -> tuple[dict[str, int], dict[str, int], Shop]:
    """Change a shop under traffic, and audit it.

    Args:
        shop: the shop in phase `before`.
        app_of: returns the app of a phase, as `deploy_service` takes it.

    Returns:
        The figures that must be 0, the size of the run, and the shop in phase `after`.
    """
    changing = _ChangingShop(shop, app_of)
    retiring = ("inventory", REMOVED)
    few = _ORDERS // 20
    plan = plan_traffic(count=_ORDERS, refusals=few, declines=few, seed=secrets.randbits(48))
    stock_articles(shop.aws.client("dynamodb"), shop.deployment.table("stock"), plan.stock)
    traffic = _SteadyTraffic(shop.aws.client("sns"), shop.deployment.ingress_topic_arn, plan)
    with background("traffic", traffic.send):
        changing.deploy("faulty", "a faulty version of inventory")
        changing.wait_for_dead_letters("inventory")
        changing.deploy("before", "the version before it again")
        changing.deploy("renaming", "warehouse beside inventory, which is its old name")
        due = {order.order_id for order in traffic.sent}
        changing.deploy("retiring", f"inventory and {REMOVED} retire")
        with step(f"draining {' and '.join(retiring)}"):
            queues = changing.shop.queues(*retiring)
            wait_until_empty(shop.aws.client("sqs"), queues, timeout=_TIMEOUT_SECONDS)
        evidence = changing.evidence()
        seen = {
            (name, str(json.loads(message["Body"])["data"]["order_id"]))
            for name, url in evidence.dead_letters.items()
            for message in evidence.messages(url)
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
    }
    return figures, counts, changing.shop


@dataclass
class _SteadyTraffic:
    """Orders of a plan at an even pace, with late duplicates.

    Attributes:
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
    """The shop while it is changed; `shop` is as it is after the last change."""

    def __init__(self, shop: Shop, app_of: Callable[[str], str | Path]) -> None:
        self.shop, self._app_of = shop, app_of
        self._points = shop.deployment.table("points")  # removed with its consumer
        self._sqs = shop.aws.client("sqs")

    def deploy(self, phase: str, what: str) -> None:
        with step(f"deploying under traffic: {what}"):
            values = deployed_values(
                self.shop.aws,
                self.shop.aws.state_dir / f"{phase}.json",
                app=self._app_of(phase),
                payment_api=self.shop.sandbox.url,
            )
            deployment = Deployment.of(self.shop.deployment.service, values)
            self.shop = replace(self.shop, deployment=deployment)

    def wait_for_dead_letters(self, consumer: str) -> None:
        url = self.shop.deployment.consumer(consumer).dead_letter_url
        what = f"{_DEAD_LETTERS} dead letters"
        with step(f"waiting for {what}"):
            wait_until(
                what,
                lambda: depth(self._sqs, url).total >= _DEAD_LETTERS,
                timeout=_TIMEOUT_SECONDS,
            )

    def redrive(self, *consumers: str) -> None:
        """Redrive the dead letters of consumers, and wait until they are processed."""
        boxes = {name: self.shop.deployment.consumer(name).dead_letter_url for name in consumers}
        for name, url in boxes.items():
            if depth(self._sqs, url).total:
                self.shop.once("dlq", "redrive", "--consumer", name, "--yes")
        with step("waiting until the redriven messages are processed"):
            urls = [*self.shop.queues(*consumers), *boxes.values()]
            wait_until_empty(self._sqs, urls, timeout=_TIMEOUT_SECONDS)

    def evidence(self) -> Evidence:
        """Return the evidence for an audit, with the table of the consumer that is removed."""
        evidence = self.shop.evidence()
        return replace(evidence, tables={**evidence.tables, "points": self._points})

    def audit(
        self, traffic: _SteadyTraffic, due: set[str], seen: set[DeadLetter]
    ) -> dict[str, int]:
        sent = replace(traffic.plan, orders=traffic.sent, late=traffic.resent)
        manifest = build_manifest(sent)
        evidence = self.evidence()
        findings = audit(manifest, evidence)
        # Some stay for a reason, such as an e-mail of unknown outcome.
        for reason, times in sorted(findings.quarantined_by_reason.items()):
            if times:
                console.print(f"dead letters that a person decides about, {reason}: {times}")
        left = 0
        urls = {*self._sqs.list_queues().get("QueueUrls", [])} - {*evidence.dead_letters.values()}
        for url in urls:
            if found := depth(self._sqs, url).total:
                console.print(f"{url.rpartition('/')[2]} still holds {found}", highlight=False)
                left += found
        return count_change(findings, manifest, evidence, due=due, seen=seen, left=left)


def count_change(
    findings: Findings,
    manifest: Manifest,
    evidence: Evidence,
    *,
    due: Collection[str],
    seen: Iterable[DeadLetter],
    left: int,
) -> dict[str, int]:
    """Return the figures that must be 0, by their key in the report.

    Args:
        findings: those of the audit.
        manifest: the messages that were sent.
        evidence: that of the audit, and the table `points`.
        due: orders that were sent before the removal began, so that each must have its point.
        seen: dead letters that existed on the way.
        left: number of messages that are still in a queue, without the dead letters.
    """
    points = {
        name: number(item, "points") for name, item in evidence.by_key("points", "order_id").items()
    }
    orders, reservations = (evidence.by_key(t, "order_id") for t in ("orders", "reservations"))
    ended = {
        order["order_id"]
        for order in manifest["orders"]
        if _ends(order, orders, expected_end(order))
        and _ends(order, reservations, RESERVATION_STATUS[expected_end(order)])
    }
    return {
        "lost": findings.lost + len({*due} - points.keys()),
        "doubled": findings.doubled + sum(count - 1 for count in points.values()),
        # The order of a lost dead letter lacks what its consumer does for it.
        "letters_lost": sum(
            order not in (points if consumer == REMOVED else ended) for consumer, order in seen
        ),
        "unfinished": findings.unfinished + findings.unexplained_dead_letters + left,
    }


def _ends(order: Manifest, table: Mapping[str, Mapping[str, Any]], status: str) -> bool:
    return text(table.get(order["order_id"], {}), "status") == status
