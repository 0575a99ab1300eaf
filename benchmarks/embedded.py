"""End to end: the same work behind real queues, pollers and function processes.

Nothing of the bench's own server takes part, so requests and write units are not counted here.
"""

import time
from collections.abc import Callable, Sequence
from itertools import count
from statistics import median

from benchmarks.checks import Wrong
from benchmarks.contenders import GROUPED_THREADS, RAW, UNGROUPED
from benchmarks.deployed.names import NAMES, ORDERS
from benchmarks.orders import body
from benchmarks.rows import EMBEDDED, Row
from demo.deployed_shop import deploy_service
from demo.quiescence import wait_until_empty
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.ops.aws.deployment import Deployment

LABELS = dict(zip(NAMES, (RAW, UNGROUPED, GROUPED_THREADS), strict=True))
BATCH, WARM = 10, 100
REST_SECONDS = 120.0
_NO_PROVIDER = "http://127.0.0.1:9"
"""The saga is deployed along, and nothing is sent to it."""


def measure_embedded(messages: int, repeats: int, say: Callable[[str], None]) -> list[Row]:
    """Deploy the three consumers, let each work off a queue again and again, and return their rows.

    Args:
        messages: how many each gets in each repeat.
        repeats: how often each is measured.
        say: is told what is going on.

    Raises:
        Wrong: an order is missing at the end.
        ProcessFailed: the deployment failed; the message has its last lines.
    """
    with embedded_aws() as aws:
        say("deploying into the embedded AWS")
        app = "python3 -m benchmarks.app"
        bench = Bench(aws, deploy_service(aws, _NO_PROVIDER, app=app))
        for name in NAMES:
            bench.work_off(name, WARM)
        walls: dict[str, list[float]] = {name: [] for name in NAMES}
        for repeat in range(repeats):
            say(f"through the embedded AWS, {repeat + 1} of {repeats}")
            first = repeat % len(NAMES)
            for name in (*NAMES[first:], *NAMES[:first]):
                walls[name].append(bench.work_off(name, messages) / messages)
    return [row(name, walls[name], walls[NAMES[0]]) for name in NAMES]


class Bench:
    """The deployed consumers, and a supply of orders that never repeat."""

    def __init__(self, aws: EmbeddedAws, parts: Deployment) -> None:
        self._aws = aws
        self._sqs, self._dynamodb = aws.client("sqs"), aws.client("dynamodb")
        self._parts = parts
        self._orders = count()
        self._sent = 0

    def work_off(self, name: str, messages: int) -> float:
        """Send messages, wait until all are done, and return how long that took, in seconds."""
        queue = self._parts.consumer(name).queue_url
        batches = [
            [{"Id": str(n), "MessageBody": body(next(self._orders))} for n in range(BATCH)]
            for _ in range(messages // BATCH)
        ]
        began = time.perf_counter()
        for entries in batches:
            self._sqs.send_message_batch(QueueUrl=queue, Entries=entries)
        try:
            wait_until_empty(self._sqs, [queue], timeout=REST_SECONDS)
        except TimeoutError as error:
            log = self._aws.child.failure("is still running")  # a function that fails says so here
            raise Wrong(f"{name}, embedded: {error}\n{log}") from None
        seconds = time.perf_counter() - began
        self._sent += messages
        if (stored := self._stored()) != self._sent:
            raise Wrong(f"{name}, embedded: {self._sent} orders were sent, {stored} are stored")
        return seconds

    def _stored(self) -> int:
        """How many orders the table holds; read only when the clock stands still."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._parts.table(ORDERS), Select="COUNT"
        )
        return sum(page["Count"] for page in pages)


def row(name: str, own: Sequence[float], raw: Sequence[float]) -> Row:
    """Return the row of a consumer, from its seconds for a message in each repeat, and raw's."""
    counted = ("cpu_us", "requests", "write_units", "write_units_least", "read_units")
    compared = ("vs_powertools", "cpu_vs_raw", "requests_vs_raw", "write_units_vs_raw")
    return {
        "contender": LABELS[name],
        "records": BATCH,
        "delay_ms": EMBEDDED,
        "duplicates": 0.0,
        "conflicts": 0.0,
        "redelivered": False,
        "repeats": len(own),
        "wall_us": round(median(own) * 1e6, 1),
        "vs_raw": round(median(a / b for a, b in zip(own, raw, strict=True)), 3),
        **dict.fromkeys((*counted, *compared)),
    }
