"""The command `trace`: every consumer's actions on an event, and on the events that it caused."""

import re
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.progress import Progress
from typer import BadParameter

from once.events.dedup_key import key_hash
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.aws.queue_depth import depth
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dead_letters.queue_walk import QueueWalk, renewing
from once.ops.dedup_records.dedup_table import DedupRecordReader, Item
from once.ops.dedup_records.outbox_scan import approximate_count
from once.ops.errors import OpsError
from once.ops.terminal.console import ServiceOption, command_group, console, error_console
from once.ops.trace._event_graph import EventGraph, EventGraphBuilder
from once.ops.trace._log_entries import ConsumerLogs
from once.ops.trace._timeline import read_log_entries, timeline
from once.ops.trace._timeline_entries import TimelineEntry
from once.ops.trace._view import timeline_json, timeline_table

MOST_LETTERS = 10_000
"""Most dead letters that are read, which takes about 20 seconds."""

_HASH = re.compile(r"[0-9a-f]{64}")

app = command_group()


@app.command()
def trace(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="An event's id, a business key such as an order's id, a whole dedup key "
            "(consumer#…), or a dedup key's SHA-256, as logs and dead letters show it.",
        ),
    ],
    no_scan: Annotated[
        bool,
        typer.Option("--no-scan", help="Do not scan the table; KEY must be a whole dedup key."),
    ] = False,
    no_dead_letters: Annotated[
        bool, typer.Option("--no-dead-letters", help="Do not read the dead-letter queues.")
    ] = False,
    no_logs: Annotated[
        bool,
        typer.Option(
            "--no-logs", help="Do not read the logs, which alone show duplicates and retries."
        ),
    ] = False,
    json_only: Annotated[
        bool, typer.Option("--json", help="Print JSON in place of a table.")
    ] = False,
    service: ServiceOption = "once",
) -> None:
    """Show the actions of every consumer on an event, and on the events that it caused.

    Reads the whole dedup table, unless KEY is a whole dedup key. Dead letters are
    received and made visible again. Duplicates are recorded in the logs only, and
    are shown as far back as the logs go.

    The record of an event is found by trying every key rule. Two kinds of keys are
    not found: keys of more than three fields, and keys by content if the handler
    declares volatile fields.
    """
    deployment = Deployment.find(service)
    search = _Search(deployment, _checked(key, deployment, no_scan=no_scan))
    letters = [] if no_dead_letters else search.letters()
    graph = search.graph(letters, scan=not no_scan)
    moments = search.timeline(graph, logs=not no_logs)
    if not moments:
        raise OpsError(search.not_found_text())
    search.note_open(graph)
    _show(key, moments, search.notes, json_only=json_only)


def _checked(key: str, deployment: Deployment, *, no_scan: bool) -> str:
    if not key.strip():
        raise BadParameter("it is blank, and every record would match", param_hint="KEY")
    if no_scan and not _is_whole(key, deployment):
        names = ", ".join(_identities(deployment))
        raise BadParameter(
            f"{key!r} is no whole dedup key: one begins with a consumer's name and #, and the "
            f"consumers are {names}",
            param_hint="--no-scan",
        )
    return key


def _is_whole(key: str, deployment: Deployment) -> bool:
    consumer, mark, _ = key.partition("#")
    return bool(mark) and consumer in _identities(deployment)


def _identities(deployment: Deployment) -> list[str]:
    """Return the names that dedup keys begin with; lines of a rename share one."""
    return [*dict.fromkeys(each.identity for each in deployment.consumers.values())]


def _show(key: str, moments: list[TimelineEntry], notes: list[str], *, json_only: bool) -> None:
    if json_only:
        typer.echo(timeline_json(key, moments, notes))
        return
    console.print(timeline_table(key, moments))
    for note in notes:
        console.print(f"note: {note}", soft_wrap=True)


class _Search:
    """Search for one key; records which places were searched.

    Attributes:
        notes: remarks on the result.
    """

    def __init__(self, deployment: Deployment, key: str) -> None:
        self._deployment = deployment
        self._key = key
        self._searched: list[str] = []
        self.notes: list[str] = []

    def letters(self) -> list[Letter]:
        """Read every dead letter, and make it visible again."""
        sqs, places = client("sqs"), dead_letter_queues(self._deployment)
        if hidden := sum(depth(sqs, queue.url).in_flight for queue in places):
            self.notes.append(f"{hidden} dead letters are hidden: another command is reading them")
        with QueueWalk(sqs, places, MOST_LETTERS) as walk, renewing(walk):
            found = [letter for page in walk.pages() for letter in page]
        if len(found) == MOST_LETTERS:
            self.notes.append(f"only {MOST_LETTERS} dead letters were looked at: there are more")
        self._searched.append(f"{len(found)} dead letters in {len(places)} queues")
        return found

    def graph(self, letters: list[Letter], *, scan: bool) -> EventGraph:
        """Return the graph of the events and records that the key identifies."""
        table = DedupRecordReader(client("dynamodb"), self._deployment.dedup_table)
        builder = EventGraphBuilder(_identities(self._deployment), table.get, letters)
        records = table.get([self._key]) if _is_whole(self._key, self._deployment) else []
        if scan and not records:
            records = self._scan(table)
        return builder.follow(records, builder.letters_with_key(self._key))

    def timeline(self, graph: EventGraph, *, logs: bool) -> list[TimelineEntry]:
        """Return the timeline of a graph."""
        now = datetime.now(UTC)
        if not logs:
            return timeline(graph, [], now)
        hashes = {self._key} if _HASH.fullmatch(self._key) else set()
        if _is_whole(self._key, self._deployment):
            hashes = {key_hash(self._key)}
        consumers = {each.name: each.identity for each in self._deployment.consumers.values()}
        service = ConsumerLogs(client("logs"), self._deployment.service)
        lines, fault = read_log_entries(graph, service, hashes, consumers)
        self.notes += [fault] if fault else []
        self._searched.append(fault or f"the logs of {', '.join(consumers)}")
        return timeline(graph, lines, now)

    def note_open(self, graph: EventGraph) -> None:
        """Note the events without a dedup record or a dead letter."""
        self.notes += [
            f"{event.type} ({event.id}) has no record and no dead letter: it waits in a queue, is "
            "being retried, or no consumer subscribes to it"
            for event, _ in graph.open_events()
        ]

    def not_found_text(self) -> str:
        """Return the error text for a key that was not found."""
        searched = "".join(f"\n  {place}" for place in self._searched)
        return (
            f"nothing is known of {self._key!r}. Searched:{searched}\n"
            "Try the event's own id, or its key's SHA-256 from a log line or a dead letter. An "
            "event that still waits in a queue has no record yet (`once status` shows the queues), "
            "and expired records are deleted"
        )

    def _scan(self, table: DedupRecordReader) -> list[Item]:
        about = approximate_count(table.dynamodb, table.name)
        many = f", about {about} records" if about else ""  # a new table does not know it yet
        error_console.print(f"reading the whole table {table.name}{many}")
        find = table.scan_for_hash if _HASH.fullmatch(self._key) else table.scan_for_key
        with Progress(console=error_console) as bar:
            task = bar.add_task("records", total=about or None)
            found = find(self._key, lambda count: bar.advance(task, count))
        self._searched.append(f"{bar.tasks[task].completed:.0f} records in {table.name}")
        return found
