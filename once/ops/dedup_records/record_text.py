"""Text of a dedup record: its commit, or the state of its pending effect."""

from datetime import datetime

from once.commit.dedup_record import StoredRecord
from once.effects.intent import Intent
from once.ops.dedup_records.dedup_table import Item
from once.ops.dedup_records.stored_record import UnreadableRecord, read_record, text_attribute
from once.ops.terminal.formatting import NOT_READABLE, format_epoch_seconds
from once.schema import Outcome, Record, Standing

_STANDINGS = {
    Standing.IN_FLIGHT: "in flight",
    Standing.NOT_DONE: "certainly not done",
    Standing.UNKNOWN: "unknown: it may have been done",
    Standing.SETTLED: "settled: its outcome is known, and is committed by the next delivery",
}


def record_lines(record: Item, now: datetime) -> list[str]:
    """Return a description of a record, as lines."""
    try:
        found = read_record(record)
    except UnreadableRecord as error:
        return [f"{NOT_READABLE}: {error}"]
    return _done(record, found) if found.intent is None else _pending(found, found.intent, now)


def format_written_at(record: StoredRecord) -> str:
    """Return the time of a record's last write as text."""
    return format_epoch_seconds(record.committed_at / 1000)


def _done(item: Item, found: StoredRecord) -> list[str]:
    lines = [f"{_outcome(item)}, committed at {format_written_at(found)}"]
    if effect := text_attribute(item, Record.EFFECT):
        key = text_attribute(item, Record.PROVIDER_KEY)
        lines.append(f"effect {effect!r} has an outcome; key at the provider: {key}")
        lines += _settlement(None, text_attribute(item, Record.SETTLEMENT))
    if found.expires_at is None:
        return [*lines, "remembered without end"]
    return [*lines, f"remembered until {format_epoch_seconds(found.expires_at)}"]


def _outcome(item: Item) -> str:
    outcome = text_attribute(item, Record.OUTCOME) or Outcome.ACCEPTED
    refusal = text_attribute(item, Record.REFUSAL)
    return f"{outcome} ({refusal})" if refusal else str(outcome)


def _pending(record: StoredRecord, intent: Intent, now: datetime) -> list[str]:
    expiry, lease = intent.key_expires_at, intent.lease_until / 1000
    remembered = (
        f"may be forgotten from {format_epoch_seconds(expiry)}" if expiry else "not remembered"
    )
    over = "over" if lease <= now.timestamp() else "running: its owner may be calling the provider"
    lines = [
        f"pending since {format_written_at(record)}, remembered without end",
        f"effect {intent.effect!r}: {_STANDINGS[intent.standing]}",
        f"key at the provider: {intent.provider_key} ({remembered})",
        f"lease until {format_epoch_seconds(lease)} ({over})",
    ]
    return lines + _settlement(intent.outcome, intent.settlement)


def _settlement(outcome: str | None, settlement: str | None) -> list[str]:
    lines = [] if outcome is None else [f"outcome: {outcome}"]
    return lines if settlement is None else [*lines, f"settled by hand: {settlement}"]
