"""The command `trace`: the records and messages of a key, their timeline, the places searched.

It shows every consumer's actions on an event, and on the events that it caused.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import product
from typing import Annotated

import msgspec
import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table
from rich.text import Text
from typer import BadParameter

from once.errors import NoKey, TooLarge
from once.events import cloud_event, identity, outgoing
from once.names import SOURCE_PREFIX, explained_by
from once.ops import terminal
from once.ops.aws import clients, function_logs
from once.ops.aws.deployment import Deployment
from once.ops.dead_letters import queue_walk
from once.ops.dead_letters.dead_letter import DeadLetter, dead_letter_queues
from once.ops.dead_letters.disagreement import Disagreement, find_among
from once.ops.dedup_records import DedupRecordReader
from once.ops.due_events import DueStanding, standing_of
from once.ops.errors import ExitCode, OpsError, error_with_remedy
from once.ops.operator_notes import read_notes
from once.ops.progress import find_deployment, saying
from once.ops.trace.timeline import (
    EntryKind,
    EventGraph,
    Standings,
    TimelineEntry,
    read_log_entries,
    timeline,
)

_MAX_SHOWN = 50
"""Maximum number of keys that an error lists."""

_MAX_SOURCES = 20
"""Maximum number of sources of dead letters that an event's id is searched with."""

_OUTGOING_ID = re.compile(r"[0-9a-f]{64}\.\d{1,4}")
_INTEGER = re.compile(r"0|-?[1-9]\d{0,99}", re.ASCII)

_STYLES = {
    EntryKind.COMMITTED: "green",
    EntryKind.REFUSED: "yellow",
    EntryKind.PENDING: "yellow",
    EntryKind.DUE: "cyan",
    EntryKind.QUARANTINED: "red",
    EntryKind.RETRIED: "yellow",
    EntryKind.DUPLICATE: "dim",
    EntryKind.REPEATED: "dim",
    EntryKind.CONFLICTING: "red",
    EntryKind.INVALID: "yellow",
    EntryKind.FAILED: "red",
}

app = terminal.command_group()


@app.command()
def trace(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="An event's id, the value of a key field such as an order's id, a whole dedup key "
            "(consumer#…), a dead letter's message id, a command's key, or a dedup key's SHA-256 "
            """from a log. A key of several fields is JSON: '{"show": "Hamlet", "seat": 7}'.""",
        ),
    ],
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="SOURCE",
            help="The CloudEvents source of the producer, with an event's id; by default those "
            "that the deployment and its dead letters name.",
        ),
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="The scope of a command's sender; needed with a command's key. Over HTTP it is "
            """JSON, such as '["claim","sub","u-1"]' or '["public"]'.""",
        ),
    ] = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            "--consumer",
            help="Begin with the records of this consumer or these commands.",
        ),
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
    """Show what was done with an event and its results, or a command.

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
    search = TraceSearch(find_deployment(service), key, consumer, source or (), scope)
    with saying("reading records, dead letters and logs"):
        _, moments = search.find(
            now, dead_letters=not no_dead_letters, logs=not no_logs, since=begin
        )
    if not moments:
        code = ExitCode.HIDDEN if search.hidden else ExitCode.FAILED
        raise OpsError(search.not_found_text(), code)
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
        told = [one.as_json() for one in search.disagreements]
        terminal.print_json(
            {"key": key, "moments": shown, "notes": search.notes, "disagreements": told}
        )
        return
    terminal.console.print(_table(key, moments))
    for one in search.disagreements:
        terminal.console.print(one.table())
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


class TraceSearch:
    """Search for one key in a deployment, with the options of the command line.

    Attributes:
        notes: remarks on the result.
        disagreements: of the consumers about the event, with the contents of dead letters.
        hidden: dead letters that could not be read.
        read_all: whether every dead letter was read.
    """

    def __init__(
        self,
        deployment: Deployment,
        key: str,
        consumer: str | None,
        sources: Collection[str],
        scope: str | None = None,
    ) -> None:
        self._deployment, self._key = deployment, key
        self._consumer, self._scope = consumer, scope
        self._given, self._sources = bool(sources), dict.fromkeys(sources or deployment.sources)
        self._keys = self._start_keys()
        self._searched: list[str] = []
        self._start_errors: list[str] = []
        self._pauses: list[str] = []
        self.notes: list[str] = []
        self.disagreements: list[Disagreement] = []
        self.hidden: queue_walk.HiddenMessages | None = None
        self.read_all = False

    def _start_keys(self) -> list[str]:
        """Return the dedup keys that the key of the command line may stand for.

        They follow from the key rules, so that the table is never scanned. The SHA-256 of a dedup
        key stands for the first event that its record published.
        """
        name, mark, _ = self._key.partition("#")
        names, webhooks = self._deployment.identities, self._deployment.webhooks
        commands = self._deployment.commands
        publishers = [*names, *commands, *([webhooks.identity] if webhooks else [])]
        if mark and name in publishers:
            return [self._key]
        chosen = [*names, *commands]
        if (named := self._consumer) is not None:
            chosen = [named if named in commands else self._deployment.consumer(named).identity]
        text = (
            outgoing.event_id_of(self._key, 0)
            if terminal.SHA256_HEX.fullmatch(self._key)
            else self._key
        )
        internal = [SOURCE_PREFIX + publisher for publisher in publishers]
        keys: dict[str, None] = {}
        for one in self._deployment.consumers.values():
            if one.identity not in chosen:
                continue
            for event_type, rule in one.keys.items():
                known = internal if event_type in one.events else self._sources
                for event in _events_with(text, rule, event_type, known):
                    with suppress(NoKey, TooLarge):
                        keys[rule.of(event, fingerprint="", consumer=one.identity)] = None
        for door in (each for each in commands.values() if each.name in chosen):
            for one_scope, command in product(_scopes(self._scope), door.commands):
                with suppress(UnicodeEncodeError):
                    parts = {"scope": one_scope, "command": command, "key": self._key}
                    keys[identity.command_key(door.name, **parts)] = None
        return [*keys]

    def find(
        self,
        now: datetime,
        *,
        dead_letters: bool = True,
        logs: bool = True,
        since: datetime | None = None,
    ) -> tuple[EventGraph, list[TimelineEntry]]:
        """Return the graph of the events and records that the key identifies, and its timeline.

        Dead letters and logs are read if this is asked for, logs from the time `since` on.
        """
        messages = self._dead_letters() if dead_letters else []
        table = DedupRecordReader.of(clients.client("dynamodb"), self._deployment)
        graph = EventGraph(self._deployment.consumers.values(), table.get, messages)
        if not self._given:
            more = [each for each in graph.sources if not each.startswith(SOURCE_PREFIX)]
            self._sources |= dict.fromkeys(more[:_MAX_SOURCES])
            self._keys = self._start_keys()
        records = table.get(self._keys)
        graph.asked.update(self._keys)
        self._searched.append(f"{len(self._keys)} dedup keys in {table.name}")
        graph.follow(records, graph.messages_with_key(self._key, self._keys))
        lines: list[function_logs.LogEntry] = []
        if logs:
            # Without a record, the logs are searched for everything about the start keys.
            keys = () if graph.records or graph.dead_letters else self._keys
            hashes = {self._key} if terminal.SHA256_HEX.fullmatch(self._key) else set()
            lines, fault = read_log_entries(graph, self._deployment, keys, hashes, since)
            self.notes += [fault] if fault else []
            functions = [*self._deployment.consumers, *self._deployment.commands]
            self._searched.append(fault or f"the logs of {', '.join(functions)}")
        standings = self._standings(graph, now)
        entries = timeline(graph, lines, now, standings)
        self._pauses = [*self._pauses_of(graph)]
        self.notes += self._pauses
        published = DueStanding.PUBLISHED
        open_events = [
            (event, keys)
            for event, keys in graph.open_events()
            if standings.get((event.source, event.id), published) is published
        ]
        if logs and (open_events or not entries):
            functions = [each.function_name for each in self._deployment.consumers.values()]
            functions += [each.function_name for each in self._deployment.commands.values()]
            errors = function_logs.start_errors(clients.client("logs"), functions)
            self._start_errors = [f"{name} cannot start: {text}" for name, text in errors.items()]
        if entries:
            read = "" if self.read_all else " among those that were read"
            self.notes += [
                f"{event.type} ({event.id}) has no record and no dead letter{read}: it waits in a "
                "queue, is being retried, or no consumer subscribes to it"
                for event, _ in open_events
            ]
            self.notes += [*graph.disagreements(), *self._start_errors]
            self.disagreements = find_among(self._deployment, graph.dead_letters)
            self.notes += [
                f"the key rule of {consumer} for {event_type} is not known, and its record is not "
                "looked up: write the rule out in @consumer.handles, and deploy"
                for consumer, event_type in sorted(graph.unknown)
            ]
        return graph, entries

    def _pauses_of(self, graph: EventGraph) -> Iterator[str]:
        """Yield a text for each paused consumer that takes one of the events, or for all."""
        types = {event.type for event in graph.events.values()}
        for name, pause in read_notes(self._deployment).pauses.items():
            consumer = self._deployment.consumers.get(name)
            if consumer and (not types or types & {*consumer.event_types}):
                yield f"{name} is {pause}. Its messages wait: {explained_by('paused')}"

    def _standings(self, graph: EventGraph, now: datetime) -> Standings:
        """Return the standings of the due events of a graph; by the clock if AWS refuses."""
        group, found = self._deployment.schedule_group_name, {}
        for _, event, due in graph.due_events():
            named = event.source, event.id
            if not graph.records.keys().isdisjoint(graph.keys.get(named, ())):
                found[named] = DueStanding.PUBLISHED  # a consumer has it
                continue
            try:
                standing = standing_of(event, due, group, now)
            except (BotoCoreError, ClientError) as error:
                self.notes.append(
                    f"schedules could not be read, and the clock alone says what is published: "
                    f"{error_with_remedy(error)}"
                )
                group, standing = None, standing_of(event, due, None, now)
            found[named] = standing
        return found

    def _dead_letters(self) -> list[DeadLetter]:
        """Read the dead letters, and make them visible again."""
        places, most = dead_letter_queues(self._deployment), queue_walk.DEFAULT_LIMIT
        with queue_walk.open_search(places, most) as walk:
            found = [message for page in walk.pages() for message in page]
        self.hidden = walk.hidden
        self.read_all = walk.complete and not walk.hidden
        unread = [f"dead letters that were not read: {walk.hidden}"] if walk.hidden else []
        if len(found) == most:
            unread.append(f"only {most} dead letters were looked at: there are more")
        self.notes += unread
        self._searched += [f"{len(found)} dead letters in {len(places)} queues", *unread]
        return found

    def not_found_text(self) -> str:
        places = [
            *self._searched,
            *terminal.first_lines([f"key {key}" for key in self._keys], _MAX_SHOWN, " keys"),
            *(
                f"no key of {one.identity} for {event_type}: its key rule is not known"
                for one in self._deployment.consumers.values()
                for event_type in one.event_types
                if event_type not in one.keys
            ),
        ]
        searched = "".join(f"\n  {place}" for place in places)
        return (
            f"nothing is known of {self._key!r}. Searched:{searched}\n"
            "An event's id needs the --source of its producer (searched: "
            f"{', '.join(map(repr, self._sources)) or 'none'}), a command's key the --scope of its "
            f"sender{self._rules_of_several_fields()}. A key of a rule that synthesis could not "
            "read is found by the whole dedup key or through a dead letter. An event that still "
            "waits in a queue has no record yet (`once status` shows the queues), and expired "
            "records are deleted"
            + "".join(f"\n{each}" for each in (*self._start_errors, *self._pauses))
        )

    def _rules_of_several_fields(self) -> str:
        rules = {
            rule.fields
            for one in self._deployment.consumers.values()
            for rule in one.keys.values()
            if len(rule.fields) > 1
        }
        forms = [", ".join(f'"{path}": …' for path in fields) for fields in sorted(rules)]
        return "".join(f", a key of several fields all of them: '{{{form}}}'" for form in forms)


def _scopes(text: str | None) -> Collection[str]:
    """Return the forms of a scope. That of HTTP is compact JSON, which may be typed with spaces."""
    found: object = None
    with suppress(msgspec.DecodeError, UnicodeEncodeError):
        found = msgspec.json.decode(text or "")
    compact = msgspec.json.encode(found).decode() if isinstance(found, list) else text
    return {each for each in (text, compact) if each is not None}


def _events_with(
    text: str, rule: identity.Key, event_type: str, sources: Collection[str]
) -> Iterator[cloud_event.CloudEvent]:
    """Yield events of a type that have the text where the key rule reads it."""
    values = [text, int(text)] if _INTEGER.fullmatch(text) else [text]
    match rule:
        case identity.Key("event"):
            published = bool(_OUTGOING_ID.fullmatch(text))
            for source in sources:
                if published or not source.startswith(SOURCE_PREFIX):
                    yield cloud_event.CloudEvent(id=text, source=source, type=event_type)
        case identity.Key("field", (path, *more)):
            for value in () if more else values:
                yield _event_of(event_type, {path: value})
            with suppress(msgspec.DecodeError, UnicodeEncodeError):
                yield _event_of(event_type, msgspec.json.decode(text, type=dict[str, object]))
        case identity.Key("attribute", (name,)):
            for source in sources:
                for value in values:
                    yield cloud_event.CloudEvent(
                        id="",
                        source=source,
                        type=event_type,
                        subject=text,
                        extensions={} if name == "subject" else {name: value},
                    )


def _event_of(event_type: str, fields: Mapping[str, object]) -> cloud_event.CloudEvent:
    """Return an event with these values at the paths of its data; a path has dots for nesting."""
    data: dict[str, object] = {}
    for path, value in fields.items():
        *parents, name = path.split(".")
        place = data
        for parent in parents:
            inner = place.setdefault(parent, {})
            place = inner if isinstance(inner, dict) else {}
        place[name] = value
    return cloud_event.CloudEvent(id="", source="", type=event_type, data=data)
