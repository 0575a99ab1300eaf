"""The command `once outbox republish`: publishes committed events again."""

from dataclasses import asdict
from typing import Annotated

from rich.table import Table
from typer import Option

from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.ops.operator_log import WhyOption
from once.ops.outbox.republication import Republication, failure_text, record_period
from once.ops.outbox.republish import RepublishResult
from once.ops.terminal.console import (
    JsonOption,
    ServiceOption,
    command_group,
    console,
    print_json,
    progress,
)
from once.ops.terminal.timestamps import TIME_FORMATS

app = command_group(help="Events that consumers committed with their writes.")


@app.command("republish")
def republish_command(
    since: Annotated[
        str, Option(metavar="WHEN", help=f"Only events from this time or later: {TIME_FORMATS}.")
    ],
    until: Annotated[
        str | None,
        Option(metavar="WHEN", help="Only events from before this time; by default up to now."),
    ] = None,
    consumer: Annotated[
        str | None, Option(help="Only events that this consumer committed.")
    ] = None,
    to: Annotated[
        str | None,
        Option(
            metavar="CONSUMER",
            help="Send the events to this consumer only, if it takes their types.",
        ),
    ] = None,
    rate: Annotated[
        float | None, Option(min=1, help="Most records a second; by default as fast as it goes.")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Count the events, and publish none.")
    ] = False,
    service: ServiceOption = "once",
    why: WhyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish committed events again, after a stream outage of over 24 h or a loss in the relay.

    The relay publishes them. An event that was published before changes nothing:
    it keeps its id, and consumers deduplicate. Five minutes before and after the
    period are included, because clocks differ. The command reads the whole dedup
    table; do not run it routinely. It leaves out records that expire within 30
    days: a message can live that long, and a consumer that has forgotten its event
    would process it again.

    With --to, a consumer that was deployed later receives earlier events.
    """
    period = record_period(since, until)
    told = {"since": since, "until": until, "consumer": consumer, "to": to, "rate": rate}
    asked = Republication.of(Deployment.find(service), period, told)
    with progress(as_json=as_json) as bar:
        task = bar.add_task("records looked at", total=asked.approximate_total())

        def seen(count: int, _: RepublishResult) -> None:
            bar.advance(task, count)

        result = asked.count(seen) if dry_run else asked.publish(why, seen)
    if as_json:
        print_json({"dry_run": dry_run, **asdict(result)})
    else:
        console.print(_summary(result, dry_run=dry_run))
    if result.refused or result.unreadable:
        raise OpsError(failure_text(result, by_relay=not (dry_run or to)))


def _summary(result: RepublishResult, *, dry_run: bool) -> Table:
    table = Table("only counted" if dry_run else "published")
    table.add_column("number", justify="right")
    table.add_row("records read", str(result.records))
    table.add_row("records left out as too old", str(result.too_old))
    table.add_section()
    for event_type, number in sorted(result.events.items()):
        table.add_row(event_type, str(number))
    table.add_section()
    table.add_row("events", str(result.events.total()))
    return table
