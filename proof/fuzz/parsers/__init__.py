"""The parsers under fuzz, each with its properties and the errors that may come out of it."""

from proof.fuzz.parsers import (
    batch,
    cancellation,
    canonical,
    commit,
    events,
    intake,
    keys,
    originals,
    stored,
    stream,
    strict_json,
)

PARSERS = (
    strict_json.TARGET,
    events.TARGET,
    originals.TARGET,
    intake.TARGET,
    keys.TARGET,
    canonical.CANONICAL,
    canonical.FINGERPRINT,
    cancellation.TARGET,
    commit.TARGET,
    stored.TARGET,
    stream.TARGET,
    batch.TARGET,
)
