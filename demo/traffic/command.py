"""The command `send`: sends sample orders with duplicates, conflicts and malformed bodies."""

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from botocore.exceptions import ClientError
from rich.table import Table
from typer import BadParameter, Option

from demo.traffic import publisher as publish
from demo.traffic.plan import (
    EVENT_TYPE,
    BodyBatch,
    TrafficPlan,
    build_manifest,
    first_wave,
    late_wave,
    plan_traffic,
)
from emulator.local.steps import step
from once.ops.aws.clients import THREADS, client, total_depth
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.errors import OpsError
from once.ops.progress import progress
from once.ops.terminal import ServiceOption, command_group, console

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_SEED_BITS = 48
_MAX_COUNT = 100_000
_MAX_DUPLICATES = 10
"""Largest number of duplicates for each order."""
_DUPLICATES = re.compile(r"(?P<share>\d{1,9}(\.\d{1,9})?)%|(?P<count>\d{1,9})", re.ASCII)
_POLL_SECONDS = 1.0
_EMPTY_READINGS = 2
"""Number of empty readings in a row that count as empty: figures of SQS are approximate, and a
message takes a moment from a topic to a queue."""

app = command_group()


@app.command()
def send(
    count: Annotated[int, Option(min=1, max=_MAX_COUNT, help="Number of orders.")] = 100,
    duplicates: Annotated[
        str, Option(help="Further deliveries: a share of the orders (30%) or a count (45).")
    ] = "0",
    conflicts: Annotated[
        int,
        Option(min=0, max=_MAX_COUNT, help="Events with an order's event id and other content."),
    ] = 0,
    malformed: Annotated[
        int, Option(min=0, max=_MAX_COUNT, help="Bodies that cannot be read.")
    ] = 0,
    refusals: Annotated[
        int, Option(min=0, max=_MAX_COUNT, help="Orders for an article that is out of stock.")
    ] = 0,
    declines: Annotated[
        int, Option(min=0, max=_MAX_COUNT, help="Other orders whose card is declined.")
    ] = 0,
    seed: Annotated[
        int | None,
        Option(min=0, help="The same seed sends the same events; by default all are new."),
    ] = None,
    stock: Annotated[bool, Option(help="Put new articles into stock first.")] = True,
    queue: Annotated[
        str | None, Option(help="Send to this consumer's queue only, not to the topic.")
    ] = None,
    manifest_file: Annotated[
        Path | None,
        Option("--manifest", dir_okay=False, help="Write a list of the messages to this file."),
    ] = None,
    timeout: Annotated[
        float, Option(min=1, help="Seconds in which the first messages must be processed.")
    ] = 300,
    service: ServiceOption = "once",
) -> None:
    """Send sample orders and duplicates: at once, in parallel, and after they were processed.

    Late duplicates and conflicts wait until the consumers' queues are empty.
    """
    if refusals + declines > count:
        raise BadParameter(
            f"together at most --count, which is {count}", param_hint="--refusals, --declines"
        )
    planned = plan_traffic(
        count=count,
        duplicates=parse_duplicates(duplicates, count),
        conflicts=conflicts,
        malformed=malformed,
        refusals=refusals,
        declines=declines,
        seed=secrets.randbits(_SEED_BITS) if seed is None else seed,
    )
    deployment = Deployment.find(service)
    consumers = [deployment.consumer(queue)] if queue else [*deployment.consumers.values()]
    if stock:
        with progress() as bar:
            task = bar.add_task("articles on the shelf", total=len(planned.stock))
            table = deployment.table("stock")
            stock_articles(client("dynamodb"), table, planned.stock, lambda: bar.advance(task))

    if queue:
        call = publish.to_queue(client("sqs"), consumers[0].queue_url)
    else:
        call = publish.to_topic(client("sns"), deployment.ingress_topic_arn)

    def entry(body: str) -> publish.Entry:
        return {"MessageBody": body} if queue else publish.published(body, EVENT_TYPE)

    def send_wave(name: str, wave: Sequence[BodyBatch]) -> float:
        with progress() as bar:
            task = bar.add_task(name, total=sum(map(len, wave)))
            batches = ([entry(body) for body in batch] for batch in wave)
            return publish.send_batches(call, batches, lambda count: bar.advance(task, count))

    seconds = send_wave("first messages", list(first_wave(planned)))
    if late := late_wave(planned):
        with step("waiting until the consumers' queues are empty", console=console) as shown:
            wait_until_drained(consumers, timeout=timeout, show=shown.show)
        seconds += send_wave("late messages", late)
    console.print(_summary(planned, seconds))
    if manifest_file:
        names, topic = [consumer.name for consumer in consumers], deployment.ingress_topic_arn
        facts = build_manifest(planned, topic=topic, consumers=names, seconds=seconds)
        manifest_file.parent.mkdir(parents=True, exist_ok=True)
        manifest_file.write_text(json.dumps(facts, indent=1) + "\n")


def parse_duplicates(text: str, count: int) -> int:
    """Return the number of duplicates.

    Args:
        text: a share of the orders, such as `30%`, or a count, such as `45`.
        count: the number of orders.

    Raises:
        typer.BadParameter: it is neither, or more than ten for each order.
    """
    match = _DUPLICATES.fullmatch(text.strip())
    if not match:
        raise BadParameter(
            f"{text!r} is neither a share of the orders, such as 30%, nor a count, such as 45",
            param_hint="--duplicates",
        )
    share = match["share"]
    number = round(Decimal(share) * count / 100) if share else int(match["count"])
    if number > _MAX_DUPLICATES * count:
        raise BadParameter(
            f"{text!r} is more than {_MAX_DUPLICATES} for each of {count} orders",
            param_hint="--duplicates",
        )
    return number


def stock_articles(
    dynamodb: Any, table: str, stock: Mapping[str, int], done: Callable[[], object]
) -> None:
    """Write new articles, by SKU; existing ones keep their stock. Call `done` after each."""

    def put_new(sku: str, available: int) -> None:
        try:
            dynamodb.put_item(
                TableName=table,
                Item={"sku": {"S": sku}, "available": {"N": str(available)}},
                ConditionExpression="attribute_not_exists(sku)",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(put_new, stock.keys(), stock.values()):
            done()


def wait_until_drained(
    consumers: Iterable[DeployedConsumer], *, timeout: float, show: Callable[[str], object]
) -> None:
    """Block until the consumers' queues hold no message: none waiting, in flight or delayed.

    Args:
        consumers: the consumers.
        timeout: in seconds.
        show: called after each reading with the depths as text.

    Raises:
        OpsError: the time is up.
    """
    sqs: SQSClient = client("sqs")
    queues = {consumer.name: consumer.queue_urls for consumer in consumers}
    deadline = time.monotonic() + timeout
    zeros = 0
    while zeros < _EMPTY_READINGS:
        time.sleep(_POLL_SECONDS)
        depths = {name: total_depth(sqs, urls) for name, urls in queues.items()}
        show(", ".join(f"{name} {found.total}" for name, found in depths.items()))
        zeros = 0 if any(found.total for found in depths.values()) else zeros + 1
        if not zeros and time.monotonic() > deadline:
            left = "; ".join(
                f"{name}: {d.visible} visible, {d.in_flight} in flight, {d.delayed} delayed"
                for name, d in depths.items()
            )
            raise OpsError(
                f"the queues were not empty after {timeout:g} s ({left}): read the functions' "
                "logs, or give them more time with --timeout"
            )


def _summary(planned: TrafficPlan, seconds: float) -> Table:
    table = Table("sent", title=f"seed {planned.seed}", title_justify="left")
    table.add_column("messages", justify="right")
    refused = sum(order.refused for order in planned.orders)
    declined = sum(order.declined for order in planned.orders)
    rows = {
        f"orders ({refused} of them to be refused, {declined} declined)": len(planned.orders),
        "again, in the same call": len(planned.at_once),
        "again, in parallel": len(planned.parallel),
        "again, after processing": len(planned.late),
        "conflicts": len(planned.conflicts),
        "malformed": len(planned.malformed),
    }
    for name, number in rows.items():
        table.add_row(name, str(number))
    table.add_section()
    table.add_row(f"in {seconds:.1f} s, without waits", str(planned.messages))
    return table
