"""Settlement: the intent of a pending effect after its outcome was found out by hand.

Each has a new owner, so that its former owner can no longer complete or change the record.
"""

from dataclasses import replace
from uuid import uuid4

from once.handlers.intent import Intent
from once.schema import Standing


def settled(found: Intent, outcome: str, settlement: str) -> Intent:
    """Return the intent of an effect whose outcome is known.

    Args:
        found: the intent as it was read.
        outcome: the outcome in its kept form; see `once.effects.kept_outcome`.
        settlement: who settled it, when and why, as JSON.
    """
    return _owned_anew(found, Standing.SETTLED, outcome, settlement)


def not_done(found: Intent, settlement: str, *, new_key: bool = False) -> Intent:
    """Return the intent of an effect that certainly did not happen: it will be called again.

    Args:
        found: the intent as it was read.
        settlement: who settled it, when and why, as JSON.
        new_key: whether to use a new provider key, because the old one returns a saved error only.
    """
    after = _owned_anew(found, Standing.NOT_DONE, None, settlement)
    return replace(after, provider_key=found.next_key) if new_key else after


def _owned_anew(found: Intent, standing: Standing, outcome: str | None, settlement: str) -> Intent:
    return replace(
        found, standing=standing, outcome=outcome, settlement=settlement, owner=uuid4().hex
    )
