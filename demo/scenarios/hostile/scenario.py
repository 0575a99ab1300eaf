"""The scenario itself: sends, waits until everything is processed, counts and reports."""

from collections import Counter
from collections.abc import Sequence

from demo.console import print_failure, step
from demo.deployed_shop import collect_evidence
from demo.payment_sandbox import PaymentSandbox
from demo.quiescence import wait_until_quiescent
from demo.scenarios.hostile import messages
from demo.scenarios.hostile.effect_counts import (
    FinalState,
    count_effects,
    read_dead_letters,
)
from demo.scenarios.hostile.hostile_traffic import HostileTraffic
from demo.scenarios.hostile.monitor import monitor_run
from demo.scenarios.hostile.report import report_figures
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment

APP = "python3 -m demo.scenarios.hostile.app"
_TIMEOUT_SECONDS = 1200.0
_STOCK = 1_000_000

_KEYS = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
    "payments": "order_id",
    "notifications": "order_id",
    "counters": "id",
}


def hostile(
    aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment, deploy_seconds: float
) -> bool:
    """Send poison, bombs, forgeries and fatal messages, then healthy ones; count their effects.

    Returns:
        Whether every healthy message committed once and no forged one was accepted.
    """
    del deploy_seconds
    _stock(aws, deployment)
    names = [consumer.function_name for consumer in deployment.consumers.values()]
    tables = {deployment.table(table): _KEYS[table] for table in ("orders", "counters")}
    traffic = HostileTraffic(aws, deployment)
    with monitor_run(aws, tables, names, _source_queues(aws)) as monitor:
        with step("sending poison, bombs, forgeries, fatal messages, and healthy ones behind them"):
            sent = traffic.send()
        _wait(aws, sandbox, deployment)
    with step("counting"):
        final = _final_state(aws, sandbox, deployment)
        counted = {
            **count_effects(sent, final, _STOCK),
            "peak_rss_mb": round(monitor.peak_rss_mb, 1),
            "healthy_wait_p99_s": round(_p99(traffic.waits(monitor.seen)), 1),
        }
    return report_figures(counted)


def _stock(aws: EmbeddedAws, deployment: Deployment) -> None:
    item = {"sku": {"S": messages.SKU}, "available": {"N": str(_STOCK)}}
    aws.client("dynamodb").put_item(TableName=deployment.table("stock"), Item=item)


def _wait(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> None:
    urls = _source_queues(aws)
    with step("waiting until everything is processed") as shown:
        try:
            evidence = collect_evidence(aws, deployment, sandbox.url)
            wait_until_quiescent(evidence, urls, timeout=_TIMEOUT_SECONDS, show=shown.show)
        except TimeoutError as error:
            print_failure(aws, error)


def _final_state(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> FinalState:
    evidence = collect_evidence(aws, deployment, sandbox.url)
    letters = filter(_is_dead_letter_queue, _queues(aws))
    return FinalState(
        tables={name: evidence.by_key(name, key) for name, key in _KEYS.items()},
        letters=list(read_dead_letters(aws.client("sqs"), letters)),
        charged=Counter(charge["metadata"].get("order_id") for charge in evidence.charges),
        mailed={address for mail in evidence.emails for address in mail["To"]},
    )


def _queues(aws: EmbeddedAws) -> list[str]:
    return list(aws.client("sqs").list_queues().get("QueueUrls", []))


def _source_queues(aws: EmbeddedAws) -> list[str]:
    """Return the URLs of all queues but those for dead letters and unrouted events."""
    return [url for url in _queues(aws) if not _is_dead_letter_queue(url)]


def _is_dead_letter_queue(url: str) -> bool:
    return url.endswith(("-dead-letters", "-unrouted"))


def _p99(waits: Sequence[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)] if waits else 0.0
