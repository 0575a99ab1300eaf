"""Republication: events that are published again, counted first, and logged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from typer import BadParameter

from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.dedup_records import DedupRecordReader, RecordFilter
from once.ops.operator_log import logged_change
from once.ops.outbox._direct_delivery import DirectDelivery, SendEvents, queue_sender
from once.ops.outbox.relay_invocation import MAX_FUNCTION_SECONDS, RelayFunction
from once.ops.outbox.republish import (
    RelayCall,
    RepublishResult,
    count_only,
    paced,
    republish,
    with_retries,
)
from once.ops.terminal.timestamps import parse_time_option
from once.schema import RELAY

Seen = Callable[[int, RepublishResult], object]
"""Called after each page with the number of records scanned, and the result so far."""


def record_period(since: str, until: str | None) -> RecordFilter:
    """Return the records of a period, from the options `--since` and `--until`.

    Raises:
        typer.BadParameter: a time cannot be read, or nothing is in between.
    """
    now = datetime.now(UTC)
    start = parse_time_option(since, now=now, option="--since")
    end = parse_time_option(until, now=now, option="--until") if until else None
    if start >= (end or now):
        raise BadParameter(
            f"{start.isoformat()} is not before {'--until' if end else 'now'}: nothing was "
            "committed in between",
            param_hint="--since",
        )
    return RecordFilter(since=start, until=end, consumer=None)


@dataclass(frozen=True, slots=True)
class Republication:
    """A republish that was asked for.

    Attributes:
        deployment: the deployment.
        records: the records whose events are published.
        told: the options `since`, `until`, `consumer`, `to` and `rate`, for the operator log.
    """

    deployment: Deployment
    records: RecordFilter
    told: Mapping[str, Any]

    @classmethod
    def of(
        cls, deployment: Deployment, period: RecordFilter, told: Mapping[str, Any]
    ) -> "Republication":
        """Return the republish of a period with these options.

        Raises:
            OpsError: there is no such consumer, or it takes no events of other consumers.
        """
        if consumer := told.get("consumer"):
            period = replace(period, consumer=deployment.consumer(consumer).identity)
        asked = cls(deployment, period, told)
        asked._relay(dry_run=True)  # checks the target before anything is read
        return asked

    def approximate_total(self) -> int | None:
        """Return the number of all records; None for a new table, which does not know it yet."""
        return self._records().approximate_count() or None

    def count(self, seen: Seen) -> RepublishResult:
        """Count the events, and publish none.

        Raises:
            botocore.exceptions.BotoCoreError, ClientError: the table cannot be read.
        """
        return self._run(self._relay(dry_run=True), seen)

    def publish(
        self, why: str | None, seen: Seen, check: Callable[[], object] = lambda: None
    ) -> RepublishResult:
        """Publish the events, with entries in the operator log.

        Args:
            why: the operator's reason.
            seen: called after each page.
            check: called before each batch; ends the republish by raising.

        Raises:
            OpsError: a batch failed in every attempt, or the operator log cannot be written.
            botocore.exceptions.BotoCoreError, ClientError: AWS fails.
        """
        relay = paced(self._relay(dry_run=False), self.told.get("rate"), check)
        with logged_change(self.deployment, "outbox republish", self.told, why) as change:

            def note(count: int, result: RepublishResult) -> None:
                change.counts = {"records": result.records, "events": result.events.total()}
                seen(count, result)

            return self._run(relay, note)

    def _run(self, relay: RelayCall, seen: Seen) -> RepublishResult:
        pages = self._records().scan_outboxes(self.records)
        return republish(pages, relay, seen)

    def _records(self) -> DedupRecordReader:
        return DedupRecordReader(client("dynamodb"), self.deployment.dedup_table)

    def _relay(self, *, dry_run: bool) -> RelayCall:
        if to := self.told.get("to"):
            consumer = self.deployment.consumer(to)
            send: SendEvents = (
                (lambda _: None) if dry_run else queue_sender(client("sqs"), consumer)
            )
            return DirectDelivery(consumer, send)
        if dry_run:
            return count_only
        lambda_ = client("lambda", read_timeout_seconds=MAX_FUNCTION_SECONDS)
        return with_retries(RelayFunction(lambda_, self.deployment.relay_function_name))


def failure_text(result: RepublishResult, *, by_relay: bool) -> str:
    """Return the text about records that were not published."""
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
