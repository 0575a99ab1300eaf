"""The command `trace`: every consumer's actions on an event, and on the events that it caused."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text
from typer import BadParameter

from once.ops import terminal
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.ops.progress import saying
from once.ops.trace.search import MOST_DEAD_LETTERS, TraceSearch
from once.ops.trace.timeline import EntryKind, TimelineEntry

_STYLES = {
    EntryKind.COMMITTED: "green",
    EntryKind.REFUSED: "yellow",
    EntryKind.PENDING: "yellow",
    EntryKind.QUARANTINED: "red",
    EntryKind.RETRIED: "yellow",
    EntryKind.DUPLICATE: "dim",
}

app = terminal.command_group()


@app.command()
def trace(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="An event's id, the value of a key field such as an order's id, a whole dedup key "
            "(consumer#…), a dead letter's message id, or a dedup key's SHA-256 from a log.",
        ),
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="SOURCE",
            help="The CloudEvents source of the producer; needed with an event's id.",
        ),
    ] = None,
    consumer: Annotated[
        str | None, typer.Option("--consumer", help="Begin with the records of this consumer only.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="WHEN", help=f"Read logs from then on: {terminal.TIME_FORMATS}."
        ),
    ] = None,
    no_dead_letters: Annotated[
        bool, typer.Option("--no-dead-letters", help="Do not read the dead-letter queues.")
    ] = False,
    no_logs: Annotated[
        bool,
        typer.Option(
            "--no-logs", help="Do not read the logs, which alone show duplicates and retries."
        ),
    ] = False,
    as_json: terminal.JsonOption = False,
    service: terminal.ServiceOption = "once",
) -> None:
    """Show what every consumer did with an event and its results.

    The table is never scanned. The consumers' key rules give the few dedup keys
    that KEY can stand for; each is read for one read unit. From a record the
    trace goes to the record whose event caused it, and to the events in its
    outbox. Dead letters are received and made visible again. Duplicates are
    recorded in the logs only, and are shown as far back as the logs go.
    """
    if not key.strip():
        raise BadParameter("it is blank, and no key is", param_hint="KEY")
    now = datetime.now(UTC)
    begin = terminal.parse_time_option(since, now=now, option="--since") if since else None
    search = TraceSearch(Deployment.find(service), key, consumer, source or ())
    most = 0 if no_dead_letters else MOST_DEAD_LETTERS
    with saying("reading records, dead letters and logs"):
        _, moments = search.find(now, most_dead_letters=most, logs=not no_logs, since=begin)
    if not moments:
        raise OpsError(search.not_found_text())
    if as_json:
        shown = [
            {
                "time": entry.at,
                "consumer": entry.consumer,
                "event_type": entry.event_type,
                "what": entry.kind,
                "key_hash": entry.key_hash,
                **entry.details,
            }
            for entry in moments
        ]
        terminal.print_json({"key": key, "moments": shown, "notes": search.notes})
        return
    terminal.console.print(_table(key, moments))
    for note in search.notes:
        terminal.console.print(f"note: {note}", soft_wrap=True)


def _table(key: str, entries: Sequence[TimelineEntry]) -> Table:
    columns = ("time (UTC)", "consumer", "event", "what happened")
    table = terminal.table(*columns, title=f"Trace of {key}", show_lines=True)
    for entry in entries:
        time = terminal.NOT_READABLE
        if entry.at is not None:
            time = f"{entry.at:%Y-%m-%d %H:%M:%S}.{entry.at.microsecond // 1000:03}"
        action = Text(entry.kind, style=_STYLES[entry.kind])
        for name, fact in entry.texts():
            action.append(f"\n{name}: {terminal.escape_controls(fact)}", style="default")
        table.add_row(time, entry.consumer, entry.event_type or terminal.UNKNOWN, action)
    return table
