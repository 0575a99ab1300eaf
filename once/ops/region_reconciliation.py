"""The command `once region reconcile`: compares events with the records and items of a Region.

In: the events that would be sent again after the loss of a Region. Out: which of them have a record
and no item, or an item and no record, as the two are replicated separately; their redrive, or a
record in place of the missing one.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from botocore.exceptions import ClientError
from typer import Argument, BadParameter, Option

from once.errors import OnceError
from once.events.cloud_event import read_event
from once.events.identity import commit_prefix, key_hash
from once.events.outgoing import OutgoingEvent
from once.names import COMMIT_ATTRIBUTE, SCHEMA_VERSION, Outcome, Record, State
from once.ops import terminal
from once.ops.aws import clients
from once.ops.aws.deployment import MAX_EVENT_BYTES, DeployedConsumer, Deployment
from once.ops.dedup_records import DedupRecordReader, Item
from once.ops.operator_changes import Change, ChangeOptions, logged_change
from once.ops.progress import find_deployment, saying
from once.ops.republication import queue_sender

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_MAX_SHOWN = 50


class Finding(StrEnum):
    """Record and items of an event at one consumer, as a Region has them."""

    COMPLETE = "complete"
    """A record and an item; or the record of a refusal or a pending effect, which need no item."""
    RECORD_ALONE = "record-alone"
    """No item has its commit: none arrived, later events have changed them, or it writes none."""
    ITEM_ALONE = "item-alone"
    """An item has its commit, and there is no record: sent again it would be applied twice."""
    ABSENT = "absent"
    """Neither. It was not committed, or nothing of it arrived, or later events changed its items.
    """
    UNKNOWN = "unknown"
    """Its dedup key or fingerprint cannot be told outside of the consumer's function."""


@dataclass(slots=True)
class Reconciled:
    """An event at one consumer; `items` are table and primary key of those with its commit."""

    consumer: DeployedConsumer
    event: OutgoingEvent
    pk: str | None
    fingerprint: str | None
    finding: Finding = Finding.UNKNOWN
    record: Item | None = None
    items: tuple[tuple[str, str, str], ...] = ()
    """Of each item the table, the primary key as JSON, and the id of its last commit."""
    state: str = "left"

    def as_json(self) -> dict[str, Any]:
        return {
            "finding": self.finding,
            "consumer": self.consumer.name,
            "event_type": self.event.type,
            "event_id": self.event.id,
            "source": self.event.source,
            "key_hash": self.pk and key_hash(self.pk),
            "items": [{"table": table, "key": json.loads(key)} for table, key, _ in self.items],
            "state": self.state,
        }


def read_events(text: str) -> list[OutgoingEvent]:
    """Read CloudEvents, one on each line; raise BadParameter for a line that is none."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            event = read_event(line, max_bytes=MAX_EVENT_BYTES)
        except OnceError as error:
            raise BadParameter(f"line {number} is no event: {error}") from None
        found.append(OutgoingEvent(event.id, event.source, event.type, line))
    return found


def compare(deployment: Deployment, events: Iterable[OutgoingEvent]) -> list[Reconciled]:
    """Return what the Region of the environment has of each event, at each of its consumers.

    Every item of the business tables is read once, without its data.
    """
    dynamodb = clients.client("dynamodb")
    found = [one for event in events for one in _at_consumers(deployment, event)]
    pks = [one.pk for one in found if one.pk is not None]
    reader = DedupRecordReader.of(dynamodb, deployment)
    records = {item[Record.PK]["S"]: item for item in reader.get(pks)}
    items = _items_of(dynamodb, deployment.tables.values(), {commit_prefix(pk) for pk in pks})
    for one in found:
        if one.pk is not None and one.fingerprint is not None:
            one.record, one.items = records.get(one.pk), tuple(items[commit_prefix(one.pk)])
            one.finding = _finding(one)
    return found


def _at_consumers(deployment: Deployment, event: OutgoingEvent) -> Iterator[Reconciled]:
    known = read_event(event.body, max_bytes=MAX_EVENT_BYTES)
    for consumer in deployment.consumers.values():
        if event.type in (*consumer.ingress_types, *consumer.events):
            try:
                pk, content = consumer.key(known), consumer.fingerprint(known)
                yield Reconciled(consumer, consumer.with_group(event), pk, content)
            except OnceError:  # the consumer would dead-letter it
                yield Reconciled(consumer, event, None, None)


def _finding(one: Reconciled) -> Finding:
    if one.record is None:
        return Finding.ITEM_ALONE if one.items else Finding.ABSENT
    is_whole = one.consumer.item_table is not None  # record and state are one item
    needs_none = one.record.get(Record.STATE) == {"S": State.PENDING} or one.record.get(
        Record.OUTCOME
    ) == {"S": Outcome.REFUSED}
    is_complete = one.items or is_whole or needs_none
    return Finding.COMPLETE if is_complete else Finding.RECORD_ALONE


def _items_of(
    dynamodb: "DynamoDBClient", tables: Iterable[str], prefixes: set[str]
) -> defaultdict[str, list[tuple[str, str, str]]]:
    """Return the items whose last commit is of one of these keys, by the beginning of its id.

    Items have no time of their commit, so each table is scanned as a whole, in parallel segments.
    """
    found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)

    def scan(table: str, keys: list[str], segment: int) -> None:
        names = {f"#n{number}": name for number, name in enumerate((*keys, COMMIT_ATTRIBUTE))}
        pages = dynamodb.get_paginator("scan").paginate(
            TableName=table,
            Segment=segment,
            TotalSegments=clients.THREADS,
            ProjectionExpression=", ".join(names),
            ExpressionAttributeNames=names,
        )
        for page in pages:
            for item in page["Items"]:
                commit = item.pop(COMMIT_ATTRIBUTE, {}).get("S", "")
                if commit[:16] in prefixes:
                    key = json.dumps(item, default=repr)
                    found[commit[:16]].append((table, key, commit))

    with ThreadPoolExecutor(clients.THREADS) as pool:
        for table in tables:
            described = dynamodb.describe_table(TableName=table)["Table"]
            keys = [each["AttributeName"] for each in described["KeySchema"]]
            size = described.get("TableSizeBytes", 0)
            about = f"{described.get('ItemCount', 0)} items, {size / 8192:.0f} read units"
            with saying(f"reading {table}: about {about}", after=0):
                segments = range(clients.THREADS)
                for _ in pool.map(scan, *zip(*((table, keys, n) for n in segments), strict=True)):
                    pass
    return found


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The findings that are changed; the others are shown and left."""

    settle: Annotated[
        bool, Option("--settle", help="item-alone: write the missing record of the event.")
    ] = False
    send: Annotated[
        bool, Option("--send", help="absent: send the event to the consumer's queue.")
    ] = False
    send_again: Annotated[
        bool,
        Option("--send-again", help="record-alone: delete the record, and send the event."),
    ] = False

    @property
    def findings(self) -> dict[Finding, str]:
        """The chosen findings, with the state of their events afterwards."""
        return {
            finding: state
            for finding, state, chosen in (
                (Finding.ITEM_ALONE, "settled", self.settle),
                (Finding.ABSENT, "sent", self.send),
                (Finding.RECORD_ALONE, "sent again", self.send_again),
            )
            if chosen
        }


class Reconciliation:
    """The changes for some findings; each is conditional, and may be repeated."""

    def __init__(self, deployment: Deployment, change: Change) -> None:
        self._table, self._change = deployment.dedup_table, change
        self._dynamodb = clients.client("dynamodb")

    def run(self, found: Iterable[Reconciled], chosen: Mapping[Finding, str]) -> None:
        """Write a record or send the event, for each of the chosen findings."""
        counts: Counter[str] = Counter()
        for one in found:
            if one.finding not in chosen:
                continue
            if one.finding is Finding.ITEM_ALONE:
                done = self._write({"Put": self._settled(one)})
            else:
                done = one.record is None or self._write({"Delete": self._forgotten(one)})
                if done:
                    queue_sender(clients.client("sqs"), one.consumer)([one.event])
            one.state = chosen[one.finding] if done else "changed meanwhile: run this command again"
            counts[one.state] += 1
            self._change.counts = counts

    def _write(self, action: Any) -> bool:
        try:
            self._dynamodb.transact_write_items(TransactItems=[action])
        except ClientError as error:
            if error.response["Error"]["Code"] != "TransactionCanceledException":
                raise
            return False
        return True

    def _settled(self, one: Reconciled) -> dict[str, Any]:
        now = datetime.now(UTC)
        told = {"by": self._change.who, "at": now.isoformat(timespec="seconds")}
        # Without an expiry: outside of the consumer's function its window is not known.
        record = {
            Record.PK: {"S": one.pk},
            Record.SCHEMA: {"N": str(SCHEMA_VERSION)},
            Record.EVENT_TYPE: {"S": one.event.type},
            Record.STATE: {"S": State.DONE},
            Record.OUTCOME: {"S": Outcome.ACCEPTED},
            Record.FINGERPRINT: {"S": one.fingerprint},
            Record.COMMIT: {"S": one.items[0][2]},
            Record.COMMITTED_AT: {"N": str(int(now.timestamp() * 1000))},
            Record.SETTLEMENT: {"S": json.dumps(told)},
        }
        condition = f"attribute_not_exists({Record.PK})"
        return {"TableName": self._table, "Item": record, "ConditionExpression": condition}

    def _forgotten(self, one: Reconciled) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "Key": {Record.PK: {"S": one.pk}},
            "ConditionExpression": "#commit = :commit",
            "ExpressionAttributeNames": {"#commit": Record.COMMIT},
            "ExpressionAttributeValues": {":commit": (one.record or {})[Record.COMMIT]},
        }


def reconcile_command(
    events: Annotated[
        str,
        Argument(metavar="@FILE", help="The events, a CloudEvent on each line; - for stdin."),
    ],
    choices: Choices,
    how: ChangeOptions,
    service: terminal.ServiceOption = "once",
) -> None:
    """Compare events with the records and items of the Region in charge.

    After a failover that was not drained, with eventual consistency: the events are those
    since an hour before the loss, before they are sent again. Every item of the business
    tables is read, at half a read unit for 4 KB; their names and ids alone are returned. What
    was found is shown; the options say for which findings something is done.
    """
    deployment = find_deployment(service)
    found = compare(deployment, read_events(terminal.data_text(events)))
    numbers = Counter(one.finding for one in found)
    told = [one for one in found if one.finding is not Finding.COMPLETE]
    chosen = choices.findings
    to_do = sum(one.finding in chosen for one in told)
    lines = [
        f"{one.finding:<12}  {one.consumer.name}  {one.event.type}  {one.event.id}" for one in told
    ]
    summary = ", ".join(f"{numbers[each]} {each}" for each in Finding)
    question = f"change {terminal.counted(to_do, 'event')}?" if to_do else None
    plan = [*terminal.first_lines(lines, _MAX_SHOWN), summary]
    if how.agreed(question, *plan):
        arguments = {"findings": [*chosen]}
        with logged_change(deployment, "region reconcile", arguments, how.why) as change:
            Reconciliation(deployment, change).run(told, chosen)
    if how.as_json:
        findings = [one.as_json() for one in told]
        counts = {str(each): numbers[each] for each in Finding}
        terminal.print_json({"dry_run": how.dry_run, "counts": counts, "findings": findings})
    elif to_do and not how.dry_run:
        states = Counter(one.state for one in told)
        terminal.console.print(", ".join(f"{n} {state}" for state, n in states.items()))
