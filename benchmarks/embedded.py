"""End-to-end measurement: the same work behind queues, pollers and function processes.

The bench's own server is not involved, so requests and write units are not counted. One contender
reads its batches and does nothing: it shows the time of everything but the work.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median

from benchmarks.checks import Wrong
from benchmarks.contenders import GROUPED_THREADS, POWERTOOLS, RAW, UNGROUPED
from benchmarks.deployed import names
from benchmarks.deployed.names import NAMES, NOTHING, ORDERS
from benchmarks.orders import body
from benchmarks.process_times import ProcessTimes
from benchmarks.rows import EMBEDDED, Row
from benchmarks.webhooks.embedded import PAIRS, embedded_webhook_samples
from benchmarks.webhooks.rows import webhook_rows
from demo.quiescence import wait_until_empty
from demo.shop import deploy_service
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.ops.aws.deployment import Deployment

NOOP = "nothing but the batch"
LABELS = dict(zip(NAMES, (NOOP, RAW, POWERTOOLS, UNGROUPED, GROUPED_THREADS), strict=True))
BATCH, WARM = 10, 100
REST_SECONDS = 120.0
_NO_PROVIDER = "http://127.0.0.1:9"
"""The shop is deployed too, but it gets no messages, so it needs no payment provider."""


@dataclass(frozen=True, slots=True)
class EmbeddedSample:
    """One message in one repeat: wall time, and CPU time by process, in microseconds."""

    wall_us: float
    cpu: ProcessTimes


def measure_embedded(messages: int, repeats: int, say: Callable[[str], None]) -> list[Row]:
    """Deploy the contenders, measure how fast each processes a full queue, and return their rows.

    Args:
        messages: number of messages of a consumer in each repeat.
        repeats: number of repeats.
        say: called with each step as text.

    Raises:
        Wrong: an order is missing, or a queue did not become empty.
        ProcessFailed: the deployment failed; the message has its last lines.
    """
    with embedded_aws() as aws:
        say("deploying into the embedded AWS")
        app = "python3 -m benchmarks.app"
        deployment = deploy_service(aws, _NO_PROVIDER, app=app)
        assert deployment.webhooks is not None  # noqa: S101 - the shop has an ingress
        bench = Bench(aws, deployment)
        for name in NAMES:
            bench.process(name, WARM)
        samples: dict[str, list[EmbeddedSample]] = {name: [] for name in NAMES}
        for repeat in range(repeats):
            say(f"through the embedded AWS, {repeat + 1} of {repeats}")
            first = repeat % len(NAMES)
            for name in (*NAMES[first:], *NAMES[:first]):
                samples[name].append(bench.process(name, messages))
        say("webhooks, through the embedded AWS")
        webhooks = webhook_rows(embedded_webhook_samples(aws, deployment.webhooks, PAIRS))
    return [*(row(name, samples) for name in NAMES), *webhooks]


class Bench:
    """The deployed consumers. Every message has a new order."""

    def __init__(self, aws: EmbeddedAws, parts: Deployment) -> None:
        self._aws = aws
        self._sqs, self._dynamodb = aws.client("sqs"), aws.client("dynamodb")
        self._parts = parts
        self._orders = count()
        self._sent = 0

    def process(self, name: str, messages: int) -> EmbeddedSample:
        """Send messages, wait until all are processed, and return the cost of one."""
        consumer = self._parts.consumer(name)
        batches = [
            [{"Id": str(n), "MessageBody": body(next(self._orders))} for n in range(BATCH)]
            for _ in range(messages // BATCH)
        ]
        before, began = ProcessTimes.now(self._aws, consumer.function_name), time.perf_counter()
        for entries in batches:
            self._sqs.send_message_batch(QueueUrl=consumer.queue_url, Entries=entries)
        try:
            wait_until_empty(self._sqs, [consumer.queue_url], timeout=REST_SECONDS)
        except TimeoutError as error:
            log = self._aws.child.failure("is still running")  # has the functions' errors
            raise Wrong(f"{name}, embedded: {error}\n{log}") from None
        seconds = time.perf_counter() - began
        cpu = ProcessTimes.now(self._aws, consumer.function_name).since(before, messages)
        self._sent += 0 if name == NOTHING else messages
        if (stored := self._stored()) != self._sent:
            raise Wrong(f"{name}, embedded: {self._sent} orders were sent, {stored} are stored")
        return EmbeddedSample(seconds / messages * 1e6, cpu)

    def _stored(self) -> int:
        """Return the number of stored orders; called outside the measured time only."""
        pages = self._dynamodb.get_paginator("scan").paginate(
            TableName=self._parts.table(ORDERS), Select="COUNT"
        )
        return sum(page["Count"] for page in pages)


def row(name: str, samples: dict[str, list[EmbeddedSample]]) -> Row:
    """Return a consumer's row, from the samples of all consumers."""
    own = samples[name]
    counted = ("cpu_us", "requests", "write_units", "write_units_least", "read_units")
    compared = ("cpu_vs_raw", "requests_vs_raw", "write_units_vs_raw")
    return {
        "contender": LABELS[name],
        "records": BATCH,
        "delay_ms": EMBEDDED,
        "duplicates": 0.0,
        "conflicts": 0.0,
        "redelivered": False,
        "repeats": len(own),
        "wall_us": round(median(each.wall_us for each in own), 1),
        "vs_raw": _ratio(own, samples[names.RAW]),
        "vs_powertools": _ratio(own, samples[names.POWERTOOLS]),
        "vs_nothing": _ratio(own, samples[NOTHING]),
        **{
            f"{process}_cpu_us": round(median(getattr(each.cpu, process) for each in own), 1)
            for process in ProcessTimes._fields
        },
        **dict.fromkeys((*counted, *compared)),
    }


def _ratio(own: Sequence[EmbeddedSample], others: Sequence[EmbeddedSample]) -> float:
    pairs = zip(own, others, strict=True)
    return round(median(mine.wall_us / theirs.wall_us for mine, theirs in pairs), 3)
