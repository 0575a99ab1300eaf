"""`once.commit.dedup_record` and `once.handlers.intent`: records of the table, read back."""

from random import Random
from typing import Any

from once.commit.dedup_record import StoredRecord
from once.handlers.intent import Intent
from once.schema import Record, State
from proof.fuzz import items
from proof.fuzz.target import Target, claim

LISTED = (KeyError, ValueError)
"""An attribute that is missing or of another type, and one that says what none of ours says."""


def check(item: dict[str, Any]) -> None:
    """Hold a record that was read against its item."""
    try:
        record = StoredRecord.read(item)
    except LISTED:
        return
    claim(item[Record.FINGERPRINT] == {"S": record.fingerprint}, "a fingerprint is as stored")
    claim(item[Record.COMMIT] == {"S": record.commit}, "a commit is as stored")
    is_pending = item[Record.STATE] == {"S": State.PENDING}
    claim((record.intent is not None) == is_pending, "a pending record has an intent")
    claim(record.expires_at is not None or not record.expired(2**40), "nothing unsaid expires")
    if record.intent is not None:
        claim(Intent.read(record.intent.item()) == record.intent, "an intent is read back")


def draw(rng: Random) -> dict[str, Any]:
    """Return an item of the table."""
    return items.stored(rng) if rng.random() < 0.9 else items.foreign(rng)


TARGET = Target("stored", share=4, draw=draw, check=check)
