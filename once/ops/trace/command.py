"""The command `trace`: every consumer's actions on an event, and on the events that it caused."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated

import typer
from typer import BadParameter

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.aws.queue_depth import depth
from once.ops.dead_letters.letter import Letter, dead_letter_queues
from once.ops.dead_letters.queue_walk import QueueWalk, renewing
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.dedup_records.key_rules import KeyRules
from once.ops.errors import OpsError
from once.ops.terminal.console import ServiceOption, command_group, console
from once.ops.terminal.timestamps import TIME_FORMATS, parse_time_option
from once.ops.trace._event_graph import EventGraph, EventGraphBuilder
from once.ops.trace._log_entries import ConsumerLogs
from once.ops.trace._start_keys import is_hash, start_keys
from once.ops.trace._timeline import read_log_entries, timeline
from once.ops.trace._timeline_entries import TimelineEntry
from once.ops.trace._view import timeline_json, timeline_table

MOST_LETTERS = 10_000
"""Most dead letters that are read, which takes about 20 seconds."""

_MOST_SHOWN = 50
"""Most keys that an error lists."""

app = command_group()


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
        typer.Option("--since", metavar="WHEN", help=f"Read logs from then on: {TIME_FORMATS}."),
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
    json_only: Annotated[
        bool, typer.Option("--json", help="Print JSON in place of a table.")
    ] = False,
    service: ServiceOption = "once",
) -> None:
    """Show the actions of every consumer on an event, and on the events that it caused.

    The table is never scanned. The consumers' key rules give the few dedup keys
    that KEY can stand for; each is read for one read unit. From a record the
    trace goes to the record whose event caused it, and to the events in its
    outbox. Dead letters are received and made visible again. Duplicates are
    recorded in the logs only, and are shown as far back as the logs go.
    """
    if not key.strip():
        raise BadParameter("it is blank, and no key is", param_hint="KEY")
    now = datetime.now(UTC)
    begin = parse_time_option(since, now=now, option="--since") if since else None
    deployment = Deployment.find(service)
    search = _Search(deployment, key, consumer, source or ())
    letters = [] if no_dead_letters else search.letters()
    graph = search.graph(letters)
    moments = search.timeline(graph, None if no_logs else _logs(deployment, begin), now)
    if not moments:
        raise OpsError(search.not_found_text())
    search.note_open(graph)
    _show(key, moments, search.notes, json_only=json_only)


def _logs(deployment: Deployment, since: datetime | None) -> ConsumerLogs:
    return ConsumerLogs(client("logs"), deployment.service, since)


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

    def __init__(
        self, deployment: Deployment, key: str, consumer: str | None, sources: Collection[str]
    ) -> None:
        self._deployment = deployment
        self._key = key
        self._rules = [KeyRules.of(one) for one in deployment.consumers.values()]
        self._keys = self._start_keys(consumer, sources)
        self._searched: list[str] = []
        self.notes: list[str] = []

    def _start_keys(self, consumer: str | None, sources: Collection[str]) -> list[str]:
        name, mark, _ = self._key.partition("#")
        names = self._deployment.identities
        if mark and name in names:
            return [self._key]
        chosen = [self._deployment.consumer(consumer).identity] if consumer else names
        rules = [one for one in self._rules if one.consumer in chosen]
        return start_keys(self._key, rules, publishers=names, sources=sources)

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

    def graph(self, letters: list[Letter]) -> EventGraph:
        """Return the graph of the events and records that the key identifies."""
        table = DedupRecordReader.of(client("dynamodb"), self._deployment)
        builder = EventGraphBuilder(self._rules, table.get, letters)
        records = table.get(self._keys)
        self._searched.append(f"{len(self._keys)} dedup keys in {table.name}")
        return builder.follow(records, builder.letters_with_key(self._key))

    def timeline(
        self, graph: EventGraph, logs: ConsumerLogs | None, now: datetime
    ) -> list[TimelineEntry]:
        """Return the timeline of a graph; without logs, that of its records and letters."""
        if logs is None:
            return timeline(graph, [], now)
        # The start keys belong to other events if one of them has a record.
        keys = () if graph.records or graph.letters else self._keys
        hashes = {self._key} if is_hash(self._key) else set()
        consumers = {each.name: each.identity for each in self._deployment.consumers.values()}
        lines, fault = read_log_entries(graph, logs, keys, hashes, consumers)
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
        self.notes += [
            f"the key rule of {consumer} for {event_type} is not known, and its record is not "
            "looked up: write the rule out in @consumer.handles, and deploy"
            for consumer, event_type in sorted(graph.unknown)
        ]

    def not_found_text(self) -> str:
        """Return the error text for a key that was not found."""
        more = len(self._keys) - _MOST_SHOWN
        places = [
            *self._searched,
            *(f"key {key}" for key in self._keys[:_MOST_SHOWN]),
            *([f"and {more} more keys"] if more > 0 else []),
            *(
                f"no key of {one.consumer} for {event_type}: its key rule is not known"
                for one in self._rules
                for event_type in one.without_rule
            ),
        ]
        searched = "".join(f"\n  {place}" for place in places)
        return (
            f"nothing is known of {self._key!r}. Searched:{searched}\n"
            "An event's id needs the --source of its producer. A key of several fields, or of a "
            "rule that synthesis could not read, is found by the whole dedup key or through a dead "
            "letter. An event that still waits in a queue has no record yet (`once status` shows "
            "the queues), and expired records are deleted"
        )
