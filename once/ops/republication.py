"""The command `once outbox republish`: publishes committed events again.

In: a period, and further options. Out: events that the relay publishes, or that one consumer's
queue receives. Only the relay may publish to the events topic. It is invoked with records in the
form of the table's stream, and checks them in the same way. Consumers deduplicate by the events'
ids.
"""

import json
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, cast
from uuid import uuid4

from rich.table import Table
from typer import BadParameter, Option

from once.errors import Unpublishable
from once.events.identity import consumer_of, key_hash
from once.events.outgoing import OutgoingEvent, check_origin, events_in
from once.failures.quarantine import batches_by_size
from once.names import EVENT_TYPE_ATTRIBUTE, LIVE_ALIAS, RELAY, Record
from once.ops import dedup_records, terminal
from once.ops.aws import clients
from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.due_events import list_command
from once.ops.errors import OpsError
from once.ops.operator_changes import ChangeOptions, logged_change
from once.ops.progress import find_deployment, progress

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

    from once.outbox.relay import Relayed

StreamRecord = Mapping[str, Any]
RelayCall = Callable[[Sequence[StreamRecord]], "Relayed"]
"""Publishes the events of records, and counts them; raises RelayFailed if one is not published."""

BATCH_RECORDS = 100
"""Batch size of the stream, for which the relay's timeout is set."""
_BATCH_BYTES = 5 * 1024 * 1024
"""Below Lambda's limit of 6 MB for a request."""
_MAX_FUNCTION_SECONDS = 15 * 60
"""Largest timeout of a Lambda function."""

app = terminal.command_group()
app.command("list")(list_command)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepublishOptions:
    """Options of a republish."""

    since: Annotated[str, terminal.since_option("events")]
    until: Annotated[
        str | None,
        Option(metavar="WHEN", help="Only events from before this time; by default up to now."),
    ] = None
    consumer: Annotated[str | None, Option(help="Only events that this consumer committed.")] = None
    to: Annotated[
        str | None,
        Option(
            metavar="CONSUMER",
            help="Send the events to this consumer only, if it takes their types.",
        ),
    ] = None
    rate: Annotated[
        float | None,
        Option(min=1, help="Maximum number of records a second; by default as fast as it goes."),
    ] = None

    def records(self, deployment: Deployment) -> dedup_records.RecordFilter:
        now, end = datetime.now(UTC), None
        start = terminal.parse_time_option(self.since, now=now, option="--since")
        if self.until:
            end = terminal.parse_time_option(self.until, now=now, option="--until")
        if start >= (end or now):
            raise BadParameter(
                f"{start.isoformat()} is not before {'--until' if end else 'now'}: nothing was "
                "committed in between",
                param_hint="--since",
            )
        consumer = deployment.consumer(self.consumer).identity if self.consumer else None
        return dedup_records.RecordFilter(since=start, until=end, consumer=consumer)


@app.command("republish")
def republish_command(
    options: RepublishOptions, how: ChangeOptions, service: terminal.ServiceOption = "once"
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
    asked = Republication(find_deployment(service), options)
    result, plan = RepublishResult(), []
    if how.dry_run or not how.yes:  # the plan is a read of the whole table
        with _looking(asked, how) as seen:
            result = asked.count(seen)
        plan = [_numbers(result, "to be published")]
    number = terminal.counted(result.events.total(), "event")
    question = f"publish {number} again?" if how.yes or result.events else None
    if published := how.agreed(question, *plan):
        with _looking(asked, how) as seen:
            result = asked.publish(how.why, seen)
    if how.as_json:
        terminal.print_json({"dry_run": how.dry_run, **asdict(result)})
    elif published:
        terminal.console.print(_numbers(result, "published"))
    if fault := result.fault(by_relay=published and not options.to):
        raise OpsError(fault)


@contextmanager
def _looking(asked: "Republication", how: ChangeOptions) -> Iterator["Seen"]:
    with progress(as_json=how.as_json) as bar:
        task = bar.add_task("records looked at", total=asked.approximate_total())
        yield lambda count, _: bar.advance(task, count)


def _numbers(result: "RepublishResult", title: str) -> Table:
    table = terminal.table(title, ">number")
    table.add_row("records read", str(result.records))
    table.add_row("records left out as too old", str(result.too_old))
    table.add_section()
    for event_type, number in sorted(result.events.items()):
        table.add_row(event_type, str(number))
    table.add_section()
    table.add_row("events", str(result.events.total()))
    return table


@dataclass(slots=True)
class RepublishResult:
    """Result of a republish: numbers of records and events; key hashes of records by their fault.

    `refused` ones have an event that cannot be published, `unreadable` ones no readable expiry.
    """

    records: int = 0
    too_old: int = 0
    events: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def fault(self, *, by_relay: bool) -> str:
        """Return the text about records that were not published; empty if all were."""
        refused = (
            f"these records have events that cannot be published, and all others are done; `once "
            f"dlq list --consumer {RELAY}` says why"
            if by_relay
            else "the outbox of these records cannot be read, or is not what its consumer writes"
        )
        unreadable = (
            "the expiry of these records cannot be read, so that consumers may have forgotten "
            "their events; they were left out"
        )
        lines = []
        for fault, hashes in ((refused, self.refused), (unreadable, self.unreadable)):
            if hashes:
                lines.append(f"{fault}. They are named by the SHA-256 of their key, as in logs:")
                lines += [f"  {name}" for name in hashes]
        return "\n".join(lines)


Seen = Callable[[int, RepublishResult], object]
"""Called after each page with the number of records scanned, and the result so far."""


class Republication:
    """A republish of the events of some records."""

    def __init__(self, deployment: Deployment, options: RepublishOptions) -> None:
        self._deployment, self._options = deployment, options
        self._records = options.records(deployment)
        dynamodb = clients.client("dynamodb")
        self._table = dedup_records.DedupRecordReader(dynamodb, deployment.dedup_table)
        self._consumer = deployment.consumer(options.to) if options.to else None
        # Checks the consumer before anything is read.
        self._events_of = direct_events(self._consumer) if self._consumer else events_in

    def approximate_total(self) -> int | None:
        """Return the number of all records; None for a new table, which does not know it yet."""
        return self._table.approximate_count() or None

    def count(self, seen: Seen) -> RepublishResult:
        """Count the events, and publish none."""
        pages = self._table.scan_outboxes(self._records)
        return republish(pages, _delivery(self._events_of, None), seen)

    def publish(
        self, why: str | None, seen: Seen, check: Callable[[], object] = lambda: None
    ) -> RepublishResult:
        """Publish the events, with entries in the operator log.

        `check` is called before each batch, and ends the republish by raising.
        """
        relay, lock = self._relay(), Lock()
        limiter = clients.RateLimiter(self._options.rate or inf)

        def paced(records: Sequence[StreamRecord]) -> "Relayed":
            with lock:  # all threads share the rate
                check()
                limiter.wait(len(records))
                check()  # the wait may have been long
            return relay(records)

        told = asdict(self._options)
        with logged_change(self._deployment, "outbox republish", told, why) as change:

            def note(count: int, result: RepublishResult) -> None:
                change.counts = {"records": result.records, "events": result.events.total()}
                seen(count, result)

            return republish(self._table.scan_outboxes(self._records), paced, note)

    def _relay(self) -> RelayCall:
        if self._consumer:
            return _delivery(self._events_of, queue_sender(clients.client("sqs"), self._consumer))
        lambda_ = clients.client("lambda", read_timeout_seconds=_MAX_FUNCTION_SECONDS)
        return with_retries(partial(invoke_relay, lambda_, self._deployment.relay))


def republish(
    pages: Iterable[tuple[list[dedup_records.Item], int]], relay: RelayCall, seen: Seen
) -> RepublishResult:
    """Publish the events of every record, several batches in parallel.

    `pages` are records with events, and the number of records that each page covered.
    """
    result = RepublishResult()
    end = datetime.now(UTC) + timedelta(seconds=dedup_records.MESSAGE_LIFETIME_SECONDS)
    with ThreadPoolExecutor(clients.THREADS) as pool:
        for found, scanned in pages:
            items = []
            for item in found:
                expiry = dedup_records.time_attribute(item, Record.EXPIRES_AT)
                if expiry is None:
                    result.unreadable.append(key_hash(item[Record.PK]["S"]))
                elif expiry <= end:
                    result.too_old += 1
                else:
                    items.append(item)
            for answer in pool.map(relay, [*stream_batches(items)]):
                result.events.update(answer["published"])
                later = answer.get("scheduled", {})
                result.events.update({f"{each} (later)": n for each, n in later.items()})
                result.refused = [*dict.fromkeys((*result.refused, *answer["dead_lettered"]))]
            result.records += len(items)
            seen(scanned, result)
    return result


def stream_batches(items: Iterable[dedup_records.Item]) -> Iterator[list[StreamRecord]]:
    """Yield dedup records as records of the stream, in batches of one request."""

    def inserted(item: dedup_records.Item) -> StreamRecord:
        # Without its time, which the relay would report as lag. A stream has bytes in Base64.
        names = (Record.PK, Record.COMMIT, Record.OUTBOX)
        plain = json.dumps(
            {name: item[name] for name in names if name in item},
            default=lambda raw: b64encode(raw).decode(),
        )
        images = {"Keys": {Record.PK: item[Record.PK]}, "NewImage": json.loads(plain)}
        return {"eventID": "republished", "eventName": "INSERT", "dynamodb": images}

    return batches_by_size(
        map(inserted, items),
        lambda record: len(json.dumps(record)),
        most=BATCH_RECORDS,
        most_bytes=_BATCH_BYTES,
    )


class RelayFailed(Exception):
    """The relay has not published all events of a batch; some may have been published."""


def invoke_relay(
    lambda_: "LambdaClient", function: str, records: Sequence[StreamRecord]
) -> "Relayed":
    """Let the deployed relay publish the events of records; raise RelayFailed if it has failed."""
    answer = lambda_.invoke(
        FunctionName=function,
        Qualifier=LIVE_ALIAS,  # the version that the stream invokes
        Payload=json.dumps({"Records": [*records]}),
    )
    payload = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        kind = payload.get("errorType", answer["FunctionError"])
        raise RelayFailed(f"{kind}: {payload.get('errorMessage', 'no message')}")
    return cast("Relayed", payload)


def with_retries(relay: RelayCall) -> RelayCall:
    """Return a relay that retries a failed batch.

    It raises OpsError if a batch fails in every attempt.
    """

    def publish(records: Sequence[StreamRecord]) -> "Relayed":
        for attempt in range(clients.ATTEMPTS):
            if attempt:
                clients.pause(attempt)
            try:
                return relay(records)
            except RelayFailed as error:
                failure = error
        raise OpsError(
            f"the relay did not publish all of {len(records)} records in {clients.ATTEMPTS} "
            f"attempts ({failure}): check the topic and the relay's log, and run the same "
            "command again; events published twice are deduplicated"
        )

    return publish


EventsOf = Callable[[dedup_records.Item], Iterable[OutgoingEvent]]
"""Returns the events of a record that are sent; raises Unpublishable if one cannot be read."""
SendEvents = Callable[[Sequence[OutgoingEvent]], object]


def _delivery(events_of: EventsOf, send: SendEvents | None) -> RelayCall:
    """Return a function that counts the events of records as the relay does, and sends them.

    Without `send` they are only counted.
    """

    def deliver(records: Sequence[StreamRecord]) -> "Relayed":
        events: list[OutgoingEvent] = []
        refused: list[str] = []
        for record in records:
            image = record["dynamodb"]["NewImage"]
            try:
                events += events_of(image)
            except Unpublishable:
                refused.append(key_hash(image[Record.PK]["S"]))
        if send is not None:
            send(events)
        published = Counter(event.type for event in events)
        return {"published": dict(published), "dead_lettered": refused}

    return deliver


def direct_events(consumer: DeployedConsumer) -> EventsOf:
    """Return a function that selects the events of a record for one consumer.

    A consumer receives events that are published after its deployment. Direct delivery sends it
    earlier events of its types, as long as their dedup records exist. They come in the order in
    which the table is read: on a FIFO queue, not in that of their commits. The consumer
    deduplicates, so a repeated event changes nothing.
    """
    types = consumer.events
    if not types:
        raise OpsError(
            f"{consumer.name!r} takes no events of other consumers, and only those are kept in "
            "the table: add their types to `events=` of the consumer and deploy; events of "
            "producers have to be published again by their producers"
        )

    def select(image: dedup_records.Item) -> Iterator[OutgoingEvent]:
        pk = image[Record.PK]["S"]
        for position, event in enumerate(events_in(image)):
            if event.type in types and (event.due is None or event.due <= time.time()):
                # The consumer itself checks whether this source may publish the type.
                check_origin(event, position, pk, {consumer_of(pk): types})
                yield consumer.with_group(event)

    return select


def queue_sender(sqs: "SQSClient", consumer: DeployedConsumer) -> SendEvents:
    """Return a function that sends events to a consumer's queue.

    The function raises OpsError if SQS does not accept an event in several attempts.
    """

    run = str(uuid4())

    def size(event: OutgoingEvent) -> int:
        attribute = f"{EVENT_TYPE_ATTRIBUTE}String{event.type}"
        return len(event.body.encode()) + len(attribute.encode())

    def send(events: Sequence[OutgoingEvent]) -> None:
        for some in batches_by_size(events, size):
            _, refused = clients.call_for_each(
                lambda entries: sqs.send_message_batch(
                    QueueUrl=consumer.queue_url, Entries=entries
                ),
                [consumer.message(event, run) for event in some],
            )
            if refused:
                said = ", ".join(sorted(set(refused.values())))
                raise OpsError(
                    f"the queue of {consumer.name} did not take {len(refused)} events ({said}): "
                    "run the same command again; an event that is sent twice is deduplicated"
                )

    return send
