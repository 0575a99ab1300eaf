"""The command `status`: depth of each queue, age of its oldest message, number of dead letters."""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.aws.queue_depth import depth, oldest_message_seconds
from once.ops.terminal.console import ServiceOption, command_group, console
from once.ops.terminal.formatting import UNKNOWN
from once.schema import RELAY, UNROUTED

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

WATCH_SECONDS = 2.0

app = command_group()


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Queues of one consumer, of the relay, or of unrouted events.

    None stands for a figure that is not known, or for a queue that does not exist.

    Attributes:
        consumer: the consumer's name, `relay` or `unrouted`.
        visible: messages that wait.
        in_flight: messages that a function has received.
        delayed: messages with a delay.
        oldest_seconds: age of the oldest message.
        isolated: messages in the isolation queue.
        dead_letters: dead letters; for the sweep queue, unrouted events.
    """

    consumer: str
    visible: int | None
    in_flight: int | None
    delayed: int | None
    oldest_seconds: int | None
    isolated: int | None
    dead_letters: int


@app.command()
def status(
    service: ServiceOption = "once",
    watch: Annotated[bool, typer.Option(help="Repeat until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON in place of a table.")
    ] = False,
) -> None:
    """Show the number of messages in every queue; the numbers are approximate on AWS."""
    deployment = Deployment.find(service)
    if not watch:
        _show(deployment, as_json=as_json)
    elif as_json or not console.is_terminal:
        _repeat(lambda: _show(deployment, as_json=as_json))
    else:
        with Live(console=console, auto_refresh=False) as live:
            _repeat(lambda: live.update(_table(_read_status(deployment)), refresh=True))


def _show(deployment: Deployment, *, as_json: bool) -> None:
    rows = _read_status(deployment)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows]))
    else:
        console.print(_table(rows))


def _repeat(show: Callable[[], None]) -> None:
    with suppress(KeyboardInterrupt):
        while True:
            show()
            time.sleep(WATCH_SECONDS)


def _read_status(deployment: Deployment) -> list[QueueStatus]:
    """Return the status of all queues; the relay and unrouted events come last.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: a queue cannot be read.
    """
    sqs: SQSClient = client("sqs")
    queues = [
        *((one.name, one.queue_url, one.dead_letter_url) for one in deployment.consumers.values()),
        (UNROUTED, deployment.sweep_queue_url, deployment.unrouted_queue_url),
    ]
    ages = oldest_message_seconds(client("cloudwatch"), [url for _, url, _ in queues])
    *consumers, unrouted = [
        QueueStatus(
            name,
            **asdict(depth(sqs, url)),
            oldest_seconds=age,
            isolated=None,
            dead_letters=depth(sqs, dead_letter_url).total,
        )
        for (name, url, dead_letter_url), age in zip(queues, ages, strict=True)
    ]
    given_up = depth(sqs, deployment.relay_dead_letter_url).total
    relay = QueueStatus(RELAY, None, None, None, None, None, dead_letters=given_up)
    return [*(_with_isolated(sqs, deployment, row) for row in consumers), relay, unrouted]


def _with_isolated(sqs: "SQSClient", deployment: Deployment, row: QueueStatus) -> QueueStatus:
    url = deployment.consumer(row.consumer).isolation_queue_url
    return row if url is None else replace(row, isolated=depth(sqs, url).total)


def _table(rows: Sequence[QueueStatus]) -> Table:
    table = Table("consumer")
    for name in ("visible", "in flight", "delayed", "oldest", "isolated", "dead letters"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row.consumer,
            *map(_number, (row.visible, row.in_flight, row.delayed)),
            _age(row.oldest_seconds),
            _number(row.isolated),
            str(row.dead_letters),
            style="red" if row.dead_letters else None,
        )
    return table


def _number(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def _age(seconds: int | None) -> str:
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
