"""End-to-end measurement: the same work behind queues, pollers and function processes.

The bench's own server is not involved, so requests and write units are not counted. One contender
reads its batches and does nothing: it shows the time of everything but the work. All processes
share the machine, and slow down all contenders alike.
"""

import time
from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import Any

import psutil

from benchmarks import webhooks
from benchmarks.batches import Wrong
from benchmarks.contenders import GROUPED_THREADS, POWERTOOLS, RAW, UNGROUPED
from benchmarks.deployed import order
from benchmarks.deployed.order import NAMES, NOTHING, ORDERS, PLAIN_FUNCTION, PLAIN_TABLE
from benchmarks.deployed.verify_then_put import Handle
from benchmarks.orders import body
from benchmarks.rows import EMBEDDED, Row, Sample, ratio, row_of, side_by_side
from benchmarks.webhooks import INGRESS, PUT
from demo.quiescence import wait_until_empty
from demo.scenarios.webhook_requests import HttpRequest, Sender
from demo.shop import deploy_service
from emulator.connection import Connection
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.ops.aws.clients import batches
from once.ops.aws.deployment import DeployedWebhooks, Deployment

NOOP = "nothing but the batch"
LABELS = dict(zip(NAMES, (NOOP, RAW, POWERTOOLS, UNGROUPED, GROUPED_THREADS), strict=True))

WARM = PAIRS = 100
REST_SECONDS = 120.0
_NO_PROVIDER = "http://127.0.0.1:9"
"""The shop is deployed too, but it gets no messages, so it needs no payment provider."""


def cpu_times(aws: EmbeddedAws, function_name: str) -> dict[str, float]:
    """Return the CPU seconds of the sender, of the embedded AWS, and of one function's workers."""
    workers = aws.function_processes(function_name)
    others = set(aws.child.descendants()) - set(workers)
    return {
        "sender_cpu_us": time.process_time(),
        "aws_cpu_us": sum(map(_cpu, others)),
        "function_cpu_us": sum(map(_cpu, workers)),
    }


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended in the meantime
        return 0.0
    return float(times.user + times.system)


def measure_embedded(messages: int, repeats: int, say: Callable[[str], object]) -> list[Row]:
    """Deploy the contenders, measure how fast each processes a full queue, and return their rows.

    In each repeat, each gets this number of messages. `say` is called with each step as text.
    """
    with embedded_aws() as aws:
        say("deploying into the embedded AWS")
        app = "python3 -m benchmarks.app"
        deployment = deploy_service(aws, _NO_PROVIDER, app=app)
        assert deployment.webhooks is not None  # noqa: S101 - the shop has an ingress
        new, stored, table = count(), 0, deployment.table(ORDERS)

        def process(name: str, messages: int) -> Sample:
            nonlocal stored
            found = _process(aws, deployment, name, list(islice(new, messages)))
            stored += 0 if name == NOTHING else messages
            check_stored(aws.client("dynamodb"), name, table, stored, "orders")
            return found

        for name in NAMES:
            process(name, WARM)
        say(f"through the embedded AWS, {repeats} times")
        samples = side_by_side(NAMES, repeats, lambda name, _: process(name, messages))
        say("webhooks, through the embedded AWS")
        taken = webhook_rows(aws, deployment.webhooks, PAIRS)
    return [*(row(name, samples) for name in NAMES), *taken]


def _process(aws: EmbeddedAws, parts: Deployment, name: str, numbers: Sequence[int]) -> Sample:
    """Send orders of these numbers, wait until all are processed, and return the cost of one."""
    sqs, consumer = aws.client("sqs"), parts.consumer(name)
    calls = [
        [{"Id": str(number), "MessageBody": body(number)} for number in some]
        for some in batches(numbers)
    ]
    before, began = cpu_times(aws, consumer.function_name), time.perf_counter()
    for entries in calls:
        sqs.send_message_batch(QueueUrl=consumer.queue_url, Entries=entries)
    try:
        wait_until_empty(sqs, [consumer.queue_url], timeout=REST_SECONDS)
    except TimeoutError as error:
        log = aws.child.failure("is still running")  # has the functions' errors
        raise Wrong(f"{name}, embedded: {error}\n{log}") from None
    seconds = time.perf_counter() - began
    after = cpu_times(aws, consumer.function_name)
    times = {"wall_us": seconds, **{name: now - before[name] for name, now in after.items()}}
    return {name: each / len(numbers) * 1e6 for name, each in times.items()}


def row(name: str, samples: dict[str, list[Sample]]) -> Row:
    """Return a consumer's row, from the samples of all consumers."""
    own = samples[name]
    others = {"raw": order.RAW, "powertools": order.POWERTOOLS, "nothing": NOTHING}
    versus = {f"vs_{label}": ratio(own, samples[each], "wall_us") for label, each in others.items()}
    return row_of(LABELS[name], own, *own[0], delay_ms=EMBEDDED, **versus)


def webhook_rows(aws: EmbeddedAws, ingress: DeployedWebhooks, pairs: int) -> list[Row]:
    """Return the rows of both deployed webhook functions, without CPU time."""
    aws.client("secretsmanager").put_secret_value(
        SecretId=ingress.secrets[webhooks.ENDPOINT], SecretString=webhooks.SECRET
    )
    plain = aws.client("lambda").get_function_url_config(FunctionName=PLAIN_FUNCTION)
    handles = {PUT: poster(aws, plain["FunctionUrl"]), INGRESS: poster(aws, ingress.url)}
    samples = webhooks.samples_of(handles, pairs)
    for table in (PLAIN_TABLE, ingress.captures):
        expected = webhooks.WARM + pairs
        check_stored(aws.client("dynamodb"), table, table, expected, "webhooks")
    walls = {
        which: [{"wall_us": each["wall_us"]} for each in own] for which, own in samples.items()
    }
    return webhooks.rows_of(walls, EMBEDDED)


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
