"""A dedup record in words: what was committed, or what became of its effect so far."""

from datetime import datetime

from once.contract import Outcome, Record, Standing
from once.intent import Intent
from once.record import StoredRecord
from ops.dedup_table import Item
from ops.words import shown_seconds

_STANDINGS = {
    Standing.IN_FLIGHT: "in flight",
    Standing.NOT_DONE: "certainly not done",
    Standing.UNKNOWN: "unknown: it may have been done",
}


def record_words(record: Item, now: datetime) -> list[str]:
    """Return what a record says, one line each."""
    intent = StoredRecord.read(record).intent
    return _done(record) if intent is None else _pending(record, intent, now)


def written_at(record: Item) -> str:
    """Return when a record was written last, as it is shown."""
    return shown_seconds(int(record[Record.COMMITTED_AT]["N"]) / 1000)


def _done(record: Item) -> list[str]:
    expires = int(record[Record.EXPIRES_AT]["N"])
    lines = [f"{_outcome(record)}, committed at {written_at(record)}"]
    if Record.EFFECT in record:
        effect, key = record[Record.EFFECT]["S"], record[Record.PROVIDER_KEY]["S"]
        lines.append(f"effect {effect!r} has an outcome; key at the provider: {key}")
    return [*lines, f"remembered until {shown_seconds(expires)}"]


def _outcome(record: Item) -> str:
    outcome = record.get(Record.OUTCOME, {}).get("S", Outcome.ACCEPTED)
    refusal = record.get(Record.REFUSAL, {}).get("S")
    return f"{outcome} ({refusal})" if refusal else str(outcome)


def _pending(record: Item, intent: Intent, now: datetime) -> list[str]:
    expiry, lease = intent.key_expires_at, intent.lease_until / 1000
    remembered = f"may be forgotten from {shown_seconds(expiry)}" if expiry else "not remembered"
    over = "over" if lease <= now.timestamp() else "running: its owner may be at it"
    return [
        f"pending since {written_at(record)}, remembered without end",
        f"effect {intent.effect!r}: {_STANDINGS[intent.standing]}",
        f"key at the provider: {intent.provider_key} ({remembered})",
        f"lease until {shown_seconds(lease)} ({over})",
    ]
