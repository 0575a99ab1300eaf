"""The command `send`: sends sample orders with duplicates, conflicts and malformed bodies."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from demo.traffic import publisher as publish
from demo.traffic.manifest import build_manifest
from demo.traffic.options import (
    ConflictsOption,
    CountOption,
    DeclinesOption,
    DuplicatesOption,
    MalformedOption,
    ManifestOption,
    QueueOption,
    RefusalsOption,
    SeedOption,
    StockOption,
    TimeoutOption,
    check_order_counts,
    parse_duplicates,
)
from demo.traffic.queue_drain import wait_until_drained
from demo.traffic.sample_order import EVENT_TYPE
from demo.traffic.stock import stock_articles
from demo.traffic.traffic_plan import TrafficPlan, plan_traffic
from demo.traffic.waves import BodyBatch, first_wave, late_wave
from emulator.local.steps import step
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.terminal.console import ServiceOption, command_group, console, progress

_SEED_BITS = 48

app = command_group()


@app.command()
def send(
    count: CountOption = 100,
    duplicates: DuplicatesOption = "0",
    conflicts: ConflictsOption = 0,
    malformed: MalformedOption = 0,
    refusals: RefusalsOption = 0,
    declines: DeclinesOption = 0,
    seed: SeedOption = None,
    stock: StockOption = True,
    queue: QueueOption = None,
    manifest_file: ManifestOption = None,
    timeout: TimeoutOption = 300,
    service: ServiceOption = "once",
) -> None:
    """Send sample orders and duplicates: at once, in parallel, and after they were processed.

    Late duplicates and conflicts wait until the consumers' queues are empty.
    """
    check_order_counts(refusals=refusals, declines=declines, count=count)
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
        _stock_articles(deployment, planned)
    call = publish.to_queue(consumers[0].queue_url) if queue else _to_topic(deployment)
    seconds = _send(planned, call, consumers, timeout)
    console.print(_summary(planned, seconds))
    if manifest_file:
        _write(manifest_file, planned, deployment, consumers, seconds)


def _to_topic(deployment: Deployment) -> publish.PublishCall:
    return publish.to_topic(deployment.ingress_topic_arn, EVENT_TYPE)


def _stock_articles(deployment: Deployment, planned: TrafficPlan) -> None:
    table = deployment.table("stock")
    with progress() as bar:
        task = bar.add_task("articles on the shelf", total=len(planned.stock))
        stock_articles(table, planned.stock, lambda: bar.advance(task))


def _send(
    planned: TrafficPlan,
    call: publish.PublishCall,
    consumers: Sequence[DeployedConsumer],
    timeout: float,
) -> float:
    seconds = _send_wave("first messages", list(first_wave(planned)), call)
    late = late_wave(planned)
    if late:
        _wait(consumers, timeout)
        seconds += _send_wave("late messages", late, call)
    return seconds


def _send_wave(name: str, batches: Sequence[BodyBatch], call: publish.PublishCall) -> float:
    with progress() as bar:
        task = bar.add_task(name, total=sum(map(len, batches)))
        return publish.send_batches(call, batches, lambda count: bar.advance(task, count))


def _wait(consumers: Sequence[DeployedConsumer], timeout: float) -> None:
    with step("waiting until the consumers' queues are empty", console=console) as shown:
        wait_until_drained(consumers, timeout=timeout, show=shown.show)


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


def _write(
    file: Path,
    planned: TrafficPlan,
    deployment: Deployment,
    consumers: Sequence[DeployedConsumer],
    seconds: float,
) -> None:
    names = [consumer.name for consumer in consumers]
    facts = build_manifest(
        planned, topic=deployment.ingress_topic_arn, consumers=names, seconds=seconds
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(facts, indent=1) + "\n")
