"""End-to-end measurement: the same work behind queues, pollers and function processes.

The bench's own server is not involved, so requests and write units are not counted. One contender
reads its batches and does nothing: it shows the time of everything but the work. The embedded AWS,
its functions and the sender share the machine, and so does what follows an event of the webhook
ingress: the relay and a consumer. They slow down all contenders alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, NamedTuple, Self

import psutil

from benchmarks import webhooks
from benchmarks.batches import Wrong
from benchmarks.contenders import GROUPED_THREADS, POWERTOOLS, RAW, UNGROUPED
from benchmarks.deployed import order
from benchmarks.deployed.order import NAMES, NOTHING, ORDERS, PLAIN_FUNCTION, PLAIN_TABLE
from benchmarks.deployed.verify_then_put import Handle
from benchmarks.orders import body
from benchmarks.rows import EMBEDDED, Row, middle, ratio, row_of, side_by_side
from benchmarks.webhooks import INGRESS, PUT, Kind, WebhookSample
from demo.quiescence import wait_until_empty
from demo.scenarios.webhook_requests import HttpRequest, Sender
from demo.shop import deploy_service
from emulator.connection import Connection
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.ops.aws.clients import batches
from once.ops.aws.deployment import DeployedWebhooks, Deployment

NOOP = "nothing but the batch"
LABELS = dict(zip(NAMES, (NOOP, RAW, POWERTOOLS, UNGROUPED, GROUPED_THREADS), strict=True))

WARM, PAIRS = 100, 100
REST_SECONDS = 120.0
_NO_PROVIDER = "http://127.0.0.1:9"
"""The shop is deployed too, but it gets no messages, so it needs no payment provider."""


class ProcessTimes(NamedTuple):
    """CPU time in seconds: of the sender, the embedded AWS, and the workers of one function."""

    sender: float
    aws: float
    function: float

    @classmethod
    def now(cls, aws: EmbeddedAws, function_name: str) -> Self:
        """Return the times since the start of each process."""
        workers = aws.function_processes(function_name)
        others = set(aws.child.descendants()) - set(workers)
        return cls(time.process_time(), sum(map(_cpu, others)), sum(map(_cpu, workers)))

    def since(self, earlier: "ProcessTimes", messages: int) -> "ProcessTimes":
        """Return the time of one message in microseconds, from the times before its sample."""
        pairs = zip(self, earlier, strict=True)
        return ProcessTimes(*((now - before) / messages * 1e6 for now, before in pairs))


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended in the meantime
        return 0.0
    return float(times.user + times.system)


@dataclass(frozen=True, slots=True)
class EmbeddedSample:
    """One message in one repeat: wall time, and CPU time by process, in microseconds."""

    wall_us: float
    cpu: ProcessTimes


def measure_embedded(messages: int, repeats: int, say: Callable[[str], object]) -> list[Row]:
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
        new, stored = count(), 0

        def process(name: str, messages: int) -> EmbeddedSample:
            nonlocal stored
            found = _process(aws, deployment, name, list(islice(new, messages)))
            stored += 0 if name == NOTHING else messages
            table = deployment.table(ORDERS)
            check_stored(aws.client("dynamodb"), name, table, stored, "orders")
            return found

        for name in NAMES:
            process(name, WARM)
        say(f"through the embedded AWS, {repeats} times")
        samples = side_by_side(NAMES, repeats, lambda name, _: process(name, messages))
        say("webhooks, through the embedded AWS")
        taken = embedded_webhook_samples(aws, deployment.webhooks, PAIRS)
    return [*(row(name, samples) for name in NAMES), *webhooks.webhook_rows(taken)]


def _process(
    aws: EmbeddedAws, parts: Deployment, name: str, numbers: Sequence[int]
) -> EmbeddedSample:
    """Send orders of these numbers, wait until all are processed, and return the cost of one."""
    sqs, consumer = aws.client("sqs"), parts.consumer(name)
    calls = [
        [{"Id": str(number), "MessageBody": body(number)} for number in some]
        for some in batches(numbers)
    ]
    before, began = ProcessTimes.now(aws, consumer.function_name), time.perf_counter()
    for entries in calls:
        sqs.send_message_batch(QueueUrl=consumer.queue_url, Entries=entries)
    try:
        wait_until_empty(sqs, [consumer.queue_url], timeout=REST_SECONDS)
    except TimeoutError as error:
        log = aws.child.failure("is still running")  # has the functions' errors
        raise Wrong(f"{name}, embedded: {error}\n{log}") from None
    seconds = time.perf_counter() - began
    cpu = ProcessTimes.now(aws, consumer.function_name).since(before, len(numbers))
    return EmbeddedSample(seconds / len(numbers) * 1e6, cpu)


def row(name: str, samples: dict[str, list[EmbeddedSample]]) -> Row:
    """Return a consumer's row, from the samples of all consumers."""
    own = samples[name]
    others = {"raw": order.RAW, "powertools": order.POWERTOOLS, "nothing": NOTHING}
    return row_of(
        LABELS[name],
        len(own),
        delay_ms=EMBEDDED,
        wall_us=middle(each.wall_us for each in own),
        **{
            f"vs_{label}": ratio(own, samples[other], lambda each: each.wall_us)
            for label, other in others.items()
        },
        **{
            f"{process}_cpu_us": middle(getattr(each.cpu, process) for each in own)
            for process in ProcessTimes._fields
        },
    )


def embedded_webhook_samples(
    aws: EmbeddedAws, ingress: DeployedWebhooks, pairs: int
) -> list[WebhookSample]:
    """Return the samples of both deployed webhook functions, without CPU time.

    Each function gets `pairs` requests of each kind.

    Raises:
        Wrong: an answer has the wrong status, or a webhook is not captured exactly once.
    """
    aws.client("secretsmanager").put_secret_value(
        SecretId=ingress.secrets[webhooks.ENDPOINT], SecretString=webhooks.SECRET
    )
    plain = aws.client("lambda").get_function_url_config(FunctionName=PLAIN_FUNCTION)
    handles = {PUT: poster(aws, plain["FunctionUrl"]), INGRESS: poster(aws, ingress.url)}
    webhooks.warm_up(handles, range(webhooks.WARM))
    samples = []
    for kind in Kind:
        events = [webhooks.lambda_event(webhooks.WARM + n, kind) for n in range(pairs)]
        for name, timings in webhooks.pairs_of(handles, events, kind).items():
            walls = [replace(each, cpu_us=None) for each in timings]
            samples.append(WebhookSample(name, kind, EMBEDDED, walls))
    for table in (PLAIN_TABLE, ingress.captures):
        expected = webhooks.WARM + pairs
        check_stored(aws.client("dynamodb"), table, table, expected, "webhooks")
    return samples


def poster(aws: Connection, url: str) -> Handle:
    """Return a function that posts an event's request to a function URL, on one connection."""
    sender = Sender(aws, url, {})

    def post(event: dict[str, Any], _: Any) -> dict[str, Any]:
        request = HttpRequest(event["rawPath"], event["headers"], event["body"].encode())
        return {"statusCode": sender.post(request)[0]}

    return post


def check_stored(dynamodb: Any, who: str, table: str, sent: int, what: str) -> None:
    """Compare what was sent with the items of a table; outside the measured time only."""
    pages = dynamodb.get_paginator("scan").paginate(TableName=table, Select="COUNT")
    found = sum(page["Count"] for page in pages)
    if found != sent:
        raise Wrong(f"{who}, embedded: {sent} {what} were sent, {found} are stored")
