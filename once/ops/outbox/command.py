"""The command `once outbox republish`: publishes committed events again."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from rich.table import Table
from typer import BadParameter, Option

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dedup_records.outbox_scan import RecordFilter, approximate_count, scan_outboxes
from once.ops.errors import OpsError
from once.ops.operator_log import WhyOption, logged_change
from once.ops.outbox._direct_delivery import DirectDelivery, SendEvents, queue_sender
from once.ops.outbox.relay_invocation import MAX_FUNCTION_SECONDS, RelayFunction
from once.ops.outbox.republish import (
    RelayCall,
    RepublishResult,
    count_only,
    republish,
    with_retries,
)
from once.ops.terminal.console import (
    JsonOption,
    ServiceOption,
    command_group,
    console,
    print_json,
    progress,
)
from once.ops.terminal.timestamps import TIME_FORMATS, parse_time_option
from once.schema import RELAY

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
    record_filter = _record_filter(since, until, consumer)
    deployment = Deployment.find(service)
    if consumer:
        record_filter = replace(record_filter, consumer=deployment.consumer(consumer).identity)
    relay = _direct_delivery(deployment, to, dry_run) if to else _relay(deployment, dry_run)
    run = partial(_republish, deployment.dedup_table, record_filter, relay, as_json=as_json)
    if dry_run:
        result = run()
    else:
        told = {"since": since, "until": until, "consumer": consumer, "to": to}
        with logged_change(deployment, "outbox republish", told, why) as change:
            result = run()
            change.counts = {"records": result.records, "events": result.events.total()}
    if as_json:
        print_json({"dry_run": dry_run, **asdict(result)})
    else:
        console.print(_summary(result, dry_run=dry_run))
    if result.refused or result.unreadable:
        raise OpsError(_failure_text(result, by_relay=not (dry_run or to)))


def _record_filter(since: str, until: str | None, consumer: str | None) -> RecordFilter:
    now = datetime.now(UTC)
    start = parse_time_option(since, now=now, option="--since")
    end = parse_time_option(until, now=now, option="--until") if until else None
    if start >= (end or now):
        raise BadParameter(
            f"{start.isoformat()} is not before {'--until' if end else 'now'}: nothing was "
            "committed in between",
            param_hint="--since",
        )
    return RecordFilter(since=start, until=end, consumer=consumer)


def _relay(deployment: Deployment, dry_run: bool) -> RelayCall:
    if dry_run:
        return count_only
    lambda_ = client("lambda", read_timeout_seconds=MAX_FUNCTION_SECONDS)
    return with_retries(RelayFunction(lambda_, deployment.relay_function_name))


def _direct_delivery(deployment: Deployment, name: str, dry_run: bool) -> RelayCall:
    consumer = deployment.consumer(name)
    send: SendEvents = (lambda _: None) if dry_run else queue_sender(client("sqs"), consumer)
    return DirectDelivery(consumer, send)


def _republish(
    table: str, record_filter: RecordFilter, relay: RelayCall, *, as_json: bool
) -> RepublishResult:
    dynamodb = client("dynamodb")
    pages = scan_outboxes(dynamodb, table, record_filter)
    with progress(as_json=as_json) as bar:
        total = approximate_count(dynamodb, table) or None  # a new table does not know it yet
        task = bar.add_task("records looked at", total=total)
        return republish(pages, relay, lambda count: bar.advance(task, count))


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


def _failure_text(result: RepublishResult, *, by_relay: bool) -> str:
    refused = (
        f"these records have events that cannot be published, and all others are done; `once "
        f"dlq list --consumer {RELAY}` says why"
        if by_relay
        else "the outbox of these records cannot be read, or is not what its consumer writes"
    )
    unreadable = (
        "the expiry of these records cannot be read, so that consumers may have forgotten their "
        "events; they were left out"
    )
    parts = ((refused, result.refused), (unreadable, result.unreadable))
    return "\n".join(_hash_lines(what, hashes) for what, hashes in parts if hashes)


def _hash_lines(what: str, hashes: list[str]) -> str:
    lines = "\n".join(f"  {name}" for name in hashes)
    return f"{what}. They are named by the SHA-256 of their key, as in logs:\n{lines}"
