"""Scenario `hostile`: hostile messages ahead of healthy ones, and their effects counted.

In: a deployed shop with one more consumer. Out: `reports/hostile.json`, and whether every healthy
message committed once. What counts the effects shares no code with the library: attribute names are
spelt out again on purpose.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from demo.audit.evidence import Item, number, text
from demo.background import background
from demo.report import console, report_figures, step
from demo.scenarios.hostile_messages import SKU, SentMessages, send_all
from demo.shop import Shop
from once.ops.aws.clients import depth

_TIMEOUT_SECONDS = 1200.0
_STOCK = 1_000_000
_PERIOD_SECONDS = 0.5
_PRINT_SECONDS = 10.0
_HOLD_SECONDS = 900

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
    # Messages are processed from queues that have dead letters; from others, nothing is.
    sources = [url for url in queues if _has_dead_letters(sqs, url)]
    monitor = RunMonitor(shop, sources)
    with background("monitor", monitor.run):
        with step("sending poison, bombs, forgeries, fatal messages, and healthy ones behind them"):
            sent = send_all(sqs, aws.client("sns"), shop.deployment)
        shop.wait_until_processed(queues=sources, timeout=_TIMEOUT_SECONDS)
    with step("counting"):
        evidence = shop.evidence()
        final = FinalState(
            tables={name: evidence.by_key(name, key) for name, key in _KEYS.items()},
            dead_letters=[
                message for url in queues if url not in sources for message in _messages(sqs, url)
            ],
            charged=Counter(charge["metadata"].get("order_id") for charge in evidence.charges),
            mailed={address for mail in evidence.emails for address in mail["To"]},
        )
        waits = sorted(
            monitor.seen[name] - at for name, at in sent.sent_at.items() if name in monitor.seen
        )
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
        passed=counted["healthy_committed"] == counted["healthy_sent"] > 0,
    )


def _has_dead_letters(sqs: Any, url: str) -> bool:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    return "RedrivePolicy" in answer.get("Attributes", {})


@dataclass(frozen=True, kw_only=True)
class FinalState:
    """State after the run.

    Attributes:
        tables: items by key, by logical table name.
        dead_letters: dead letters and unrouted events, as SQS has them.
        charged: number of charges by order.
        mailed: addresses that were written to.
    """

    tables: Mapping[str, Mapping[str, Item]]
    dead_letters: Sequence[Mapping[str, Any]]
    charged: Counter[str]
    mailed: Collection[str]


def count_effects(sent: SentMessages, final: FinalState, stock: int) -> dict[str, int]:
    """Return the figures of the report, by their key; `stock` is that before the run."""
    tables, orders = final.tables, final.tables["orders"]
    reservations, customers = tables["reservations"], tables["customers"]
    amounts = {n: number(tables["counters"].get(n, {}), "amount") for n in sent.counters}
    committed = {name for name, amount in amounts.items() if amount > 0}
    times = list(amounts.values())
    for name in sent.orders:
        status = text(orders.get(name, {}), "status")
        if (status, text(reservations.get(name, {}), "status")) == ("paid", "sold"):
            committed.add(name)
        times.append(number(customers.get(f"customer-{name}", {}), "orders_placed"))
        times.append(final.charged[name])
    reserved = stock - number(tables["stock"][SKU], "available")
    excess = max(0, reserved - len(sent.orders))
    healthy = {*sent.orders, *sent.counters}
    words = {word for message in final.dead_letters for word in _words(message["Body"])}
    dead, refused = healthy & words, words.intersection(sent.refused)
    # A name leaves a trace in a table, a charge or an e-mail.
    traces = {key for table in tables.values() for key in table} | {*final.charged}
    traces |= {address.partition("@")[0] for address in final.mailed}
    return {
        "healthy_sent": len(healthy),
        "healthy_committed": len(committed),
        "healthy_dead_lettered": len(dead),
        "refused_sent": len(sent.refused),
        "dead_lettered": len(final.dead_letters),
        "forged_sent": len(sent.forged),
        "forged_accepted": len(traces.intersection(sent.forged)),
        "letters_without_reason": sum(
            "once-reason" not in message.get("MessageAttributes", {})
            for message in final.dead_letters
            if not {*sent.fatal}.intersection(_words(message["Body"]))
        ),
        "lost": len(healthy - committed - dead) + len({*sent.refused} - refused),
        "doubled": sum(max(0, count - 1) for count in times) + excess,
    }


def _messages(sqs: Any, url: str) -> Iterator[Mapping[str, Any]]:
    """Read a queue to its end. Thousands of messages are hidden for a while, not released again."""
    while batch := sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        VisibilityTimeout=_HOLD_SECONDS,
    ).get("Messages"):
        yield from batch


def _words(body: str) -> Iterator[str]:
    """Yield the words of the first 2,000 characters, within quotes or blanks; a bomb follows."""
    return (word for part in body[:2000].split('"') for word in part.split())


def _peak_megabytes(pid: int) -> float:
    """Return the kernel's high-water mark, which includes peaks between two polls."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return 0.0
    lines = (line.split() for line in status.splitlines())
    return next((int(line[1]) / 1024 for line in lines if line and line[0] == "VmHWM:"), 0.0)
