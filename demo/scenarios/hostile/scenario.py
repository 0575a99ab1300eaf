"""The scenario itself: sends, waits until everything is processed, counts and reports."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from demo.background import background
from demo.report import console, report_figures, step
from demo.scenarios.hostile.effect_counts import SKU, FinalState, count_effects, read_dead_letters
from demo.scenarios.hostile.messages import HostileTraffic
from demo.shop import Shop
from once.ops.aws.clients import depth

_TIMEOUT_SECONDS = 1200.0
_STOCK = 1_000_000
_PERIOD_SECONDS = 0.5
_PRINT_SECONDS = 10.0
_NO_SOURCES = ("-dead-letters", "-unrouted")
"""Ends of the names of queues from which nothing is processed."""

_KEYS = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
    "payments": "order_id",
    "notifications": "order_id",
    "counters": "id",
}
_LABELS = {
    "healthy_sent": "healthy messages sent",
    "healthy_committed": "healthy messages committed",
    "healthy_dead_lettered": "healthy messages dead-lettered",
    "refused_sent": "hostile messages to be dead-lettered",
    "dead_lettered": "dead letters",
    "letters_without_reason": "dead letters without a reason",
    "forged_sent": "forged events and attributes",
    "forged_accepted": "forged ones accepted",
    "lost": "lost",
    "doubled": "doubled",
    "peak_rss_mb": "largest function process, MB",
    "healthy_wait_p99_s": "healthy message's wait, p99, seconds",
}
_ZERO = ("healthy_dead_lettered", "letters_without_reason", "forged_accepted", "lost", "doubled")


@dataclass
class RunMonitor:
    """Records when healthy items appear, and the memory of function processes.

    Attributes:
        seen: `time.monotonic` of each item's first appearance, by its key.
        peak_rss_mb: largest resident set of a function process, in megabytes.
    """

    shop: Shop
    queues: Sequence[str]
    seen: dict[str, float] = field(default_factory=dict)
    peak_rss_mb: float = 0.0

    def run(self, over: Event) -> None:
        """Poll until the event is set; print the depth of the queues every ten seconds."""
        aws, sqs, printed = self.shop.aws, self.shop.aws.client("sqs"), time.monotonic()
        dynamodb = aws.client("dynamodb")
        while not over.wait(_PERIOD_SECONDS):
            if time.monotonic() - printed > _PRINT_SECONDS:
                printed = time.monotonic()
                left = sum(depth(sqs, url).total for url in self.queues)
                console.print(f"[dim]messages left in queues: {left}", highlight=False)
            for consumer in self.shop.deployment.consumers.values():
                for process in aws.function_processes(consumer.function_name):
                    self.peak_rss_mb = max(self.peak_rss_mb, _peak_megabytes(process.pid))
            for name in ("orders", "counters"):
                key = _KEYS[name]
                pages = dynamodb.get_paginator("scan").paginate(
                    TableName=self.shop.deployment.table(name),
                    ProjectionExpression="#key",
                    ExpressionAttributeNames={"#key": key},
                )
                for item in (item for page in pages for item in page["Items"]):
                    self.seen.setdefault(item[key]["S"], time.monotonic())


def hostile(shop: Shop, deploy_seconds: float) -> bool:
    """Send poison, bombs, forgeries and fatal messages, then healthy ones; count their effects.

    Returns:
        Whether every healthy message committed once and no forged one was accepted.
    """
    del deploy_seconds
    aws, sqs = shop.aws, shop.aws.client("sqs")
    item = {"sku": {"S": SKU}, "available": {"N": str(_STOCK)}}
    aws.client("dynamodb").put_item(TableName=shop.deployment.table("stock"), Item=item)
    queues = list(sqs.list_queues().get("QueueUrls", []))
    sources = [url for url in queues if not url.endswith(_NO_SOURCES)]
    traffic = HostileTraffic(sqs, aws.client("sns"), shop.deployment)
    monitor = RunMonitor(shop, sources)
    with background("monitor", monitor.run):
        with step("sending poison, bombs, forgeries, fatal messages, and healthy ones behind them"):
            sent = traffic.send()
        shop.wait_until_processed(queues=sources, timeout=_TIMEOUT_SECONDS)
    with step("counting"):
        evidence = shop.evidence()
        letters = [url for url in queues if url not in sources]
        final = FinalState(
            tables={name: evidence.by_key(name, key) for name, key in _KEYS.items()},
            letters=list(read_dead_letters(sqs, letters)),
            charged=Counter(charge["metadata"].get("order_id") for charge in evidence.charges),
            mailed={address for mail in evidence.emails for address in mail["To"]},
        )
        waits = sorted(traffic.waits(monitor.seen))
        counted: Mapping[str, float] = {
            **count_effects(sent, final, _STOCK),
            "peak_rss_mb": round(monitor.peak_rss_mb, 1),
            "healthy_wait_p99_s": round(waits[int(len(waits) * 0.99)], 1) if waits else 0.0,
        }
    return report_figures(
        "hostile",
        "Hostile traffic, from tables, queues, card processor and mailboxes",
        _LABELS,
        counted,
        _ZERO,
        good="every promise holds",
        bad="a promise was broken",
        passed=counted["healthy_committed"] == counted["healthy_sent"] > 0,
    )


def _peak_megabytes(pid: int) -> float:
    """Return the kernel's high-water mark, which includes peaks between two polls."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return 0.0
    lines = (line.split() for line in status.splitlines())
    return next((int(line[1]) / 1024 for line in lines if line and line[0] == "VmHWM:"), 0.0)
