"""`send`: sample orders, with the faults that deliveries and producers have."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from demo.traffic import publisher as publish
from demo.traffic.manifest import manifest
from demo.traffic.options import (
    Conflicts,
    Count,
    Declines,
    Duplicates,
    Malformed,
    Manifest,
    Queue,
    Refusals,
    Seed,
    Stock,
    Timeout,
    check_faults,
    read_duplicates,
)
from demo.traffic.queue_drain import wait_until_empty
from demo.traffic.stock import put_on_shelf
from demo.traffic.traffic_plan import EVENT_TYPE, Plan, plan
from demo.traffic.waves import Batch, first_wave, late_wave
from once.ops.aws.deployment import Consumer, Deployment
from once.ops.terminal.console import Service, commands, console, progress

SEED_BITS = 48

app = commands()


@app.command()
def send(
    count: Count = 100,
    duplicates: Duplicates = "0",
    conflicts: Conflicts = 0,
    malformed: Malformed = 0,
    refusals: Refusals = 0,
    declines: Declines = 0,
    seed: Seed = None,
    stock: Stock = True,
    queue: Queue = None,
    manifest_file: Manifest = None,
    timeout: Timeout = 300,
    service: Service = "once",
) -> None:
    """Send sample orders, some of them again: at once, in parallel, and when they are worked off.

    Late duplicates and conflicts wait until the consumers' queues are empty.
    """
    check_faults(refusals=refusals, declines=declines, count=count)
    planned = plan(
        count=count,
        duplicates=read_duplicates(duplicates, count),
        conflicts=conflicts,
        malformed=malformed,
        refusals=refusals,
        declines=declines,
        seed=secrets.randbits(SEED_BITS) if seed is None else seed,
    )
    deployment = Deployment.find(service)
    consumers = [deployment.consumer(queue)] if queue else [*deployment.consumers.values()]
    if stock:
        _put_on_shelf(deployment, planned)
    call = publish.to_queue(consumers[0].queue_url) if queue else _to_topic(deployment)
    seconds = _send(planned, call, consumers, timeout)
    console.print(_summary(planned, seconds))
    if manifest_file:
        _write(manifest_file, planned, deployment, consumers, seconds)


def _to_topic(deployment: Deployment) -> publish.Call:
    return publish.to_topic(deployment.ingress_topic_arn, EVENT_TYPE)


def _put_on_shelf(deployment: Deployment, planned: Plan) -> None:
    table = deployment.table("stock")
    with progress() as bar:
        task = bar.add_task("articles on the shelf", total=len(planned.stock))
        put_on_shelf(table, planned.stock, lambda: bar.advance(task))


def _send(
    planned: Plan, call: publish.Call, consumers: Sequence[Consumer], timeout: float
) -> float:
    seconds = _send_wave("first messages", list(first_wave(planned)), call)
    late = late_wave(planned)
    if late:
        _wait(consumers, timeout)
        seconds += _send_wave("late messages", late, call)
    return seconds


def _send_wave(name: str, batches: Sequence[Batch], call: publish.Call) -> float:
    with progress() as bar:
        task = bar.add_task(name, total=sum(map(len, batches)))
        return publish.send(call, batches, lambda count: bar.advance(task, count))


def _wait(consumers: Sequence[Consumer], timeout: float) -> None:
    console.print("waiting until the consumers' queues are empty")
    with console.status("") as line:
        wait_until_empty(consumers, timeout=timeout, show=lambda left: line.update(f"left: {left}"))


def _summary(planned: Plan, seconds: float) -> Table:
    table = Table("sent", title=f"seed {planned.seed}", title_justify="left")
    table.add_column("messages", justify="right")
    refused = sum(order.refused for order in planned.orders)
    declined = sum(order.declined for order in planned.orders)
    rows = {
        f"orders ({refused} of them to be refused, {declined} declined)": len(planned.orders),
        "again, in the same call": len(planned.at_once),
        "again, in parallel": len(planned.parallel),
        "again, once worked off": len(planned.late),
        "conflicts": len(planned.conflicts),
        "malformed": len(planned.malformed),
    }
    for name, number in rows.items():
        table.add_row(name, str(number))
    table.add_section()
    table.add_row(f"in {seconds:.1f} s, waits left out", str(planned.messages))
    return table


def _write(
    file: Path,
    planned: Plan,
    deployment: Deployment,
    consumers: Sequence[Consumer],
    seconds: float,
) -> None:
    names = [consumer.name for consumer in consumers]
    facts = manifest(planned, topic=deployment.ingress_topic_arn, consumers=names, seconds=seconds)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(facts, indent=1) + "\n")
