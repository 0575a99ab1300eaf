"""`make demo SCENARIO=hostile`: hostile messages among healthy ones, and what became of each.

Senders and counters share no code with the library.
"""

from collections import Counter
from collections.abc import Sequence

from demo.deployed_shop import emails, place_of
from demo.payment_sandbox import PaymentSandbox
from demo.quiescence import wait_at_rest
from demo.run import explain, step
from demo.scenarios.hostile import messages
from demo.scenarios.hostile.effect_counts import Found, figures, items, letters_in
from demo.scenarios.hostile.hostile_traffic import Play
from demo.scenarios.hostile.monitor import watching
from demo.scenarios.hostile.report import report
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import Deployment

APP = "python3 -m demo.scenarios.hostile.app"
REST_SECONDS = 1200.0
STOCK = 1_000_000


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
    """Send poison, bombs, forgeries and fatal messages, then healthy ones; count what they became.

    Returns:
        Whether every healthy message committed once and nothing forged was accepted.
    """
    del deploy_seconds
    _stock(aws, deployment)
    names = [consumer.function_name for consumer in deployment.consumers.values()]
    first = {deployment.table(table): _KEYS[table] for table in ("orders", "counters")}
    play = Play(aws, deployment)
    with watching(aws, first, names, _open_queues(aws)) as watcher:
        with step("sending poison, bombs, forgeries, fatal messages, and healthy ones behind them"):
            sent = play.send()
        _rest(aws, sandbox, deployment)
    with step("counting"):
        found = _found(aws, sandbox, deployment)
        counted = {
            **figures(sent, found, STOCK),
            "peak_rss_mb": round(watcher.peak_rss_mb, 1),
            "healthy_wait_p99_s": round(_p99(play.waits(watcher.seen)), 1),
        }
    return report(counted)


def _stock(aws: EmbeddedAws, deployment: Deployment) -> None:
    item = {"sku": {"S": messages.SKU}, "available": {"N": str(STOCK)}}
    aws.client("dynamodb").put_item(TableName=deployment.table("stock"), Item=item)


def _rest(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> None:
    urls = _open_queues(aws)
    with step("waiting until everything is at rest"):
        try:
            place = place_of(aws, deployment, sandbox.url)
            wait_at_rest(place, urls, timeout=REST_SECONDS)
        except TimeoutError as error:
            explain(aws, error)


def _found(aws: EmbeddedAws, sandbox: PaymentSandbox, deployment: Deployment) -> Found:
    dynamodb = aws.client("dynamodb")
    letters = filter(_holds_letters, _queues(aws))
    return Found(
        tables={n: items(dynamodb, deployment.table(n), key) for n, key in _KEYS.items()},
        letters=list(letters_in(aws.client("sqs"), letters)),
        charged=Counter(charge["metadata"].get("order_id") for charge in sandbox.charges()),
        mailed={address for mail in emails(aws) for address in mail["To"]},
    )


def _queues(aws: EmbeddedAws) -> list[str]:
    return list(aws.client("sqs").list_queues().get("QueueUrls", []))


def _open_queues(aws: EmbeddedAws) -> list[str]:
    """Every queue whose messages are still to be processed."""
    return [url for url in _queues(aws) if not _holds_letters(url)]


def _holds_letters(url: str) -> bool:
    return url.endswith(("-dead-letters", "-unrouted"))


def _p99(waits: Sequence[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)] if waits else 0.0
