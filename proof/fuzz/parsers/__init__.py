"""The parsers under test: their shares of the inputs in percent, their generators and checks."""

from proof.fuzz import items, messages
from proof.fuzz.parsers import batch, bodies, commit, envelopes, identity, intake, stream, webhooks
from proof.fuzz.target import Target

PARSERS = (
    Target("strict_json", 16, messages.json_text, bodies.check_json),
    Target("events", 12, messages.body, bodies.check_event),
    Target("webhooks", 4, webhooks.draw, webhooks.check),
    Target("envelopes", 4, envelopes.draw, envelopes.check),
    Target("originals", 8, intake.draw_original, intake.check_original),
    Target("intake", 12, intake.draw_message, intake.check_message),
    Target("keys", 12, identity.draw_keys, identity.check_keys),
    Target("canonical", 10, identity.draw_canonical, identity.check_canonical),
    Target("fingerprint", 6, identity.draw_events, identity.check_fingerprints),
    Target("cancellation", 6, commit.draw_cancellation, commit.check_cancellation),
    Target("commit", 2, commit.draw_group, commit.check_group),
    Target("stored", 4, items.item, commit.check_stored),
    Target("stream", 2, stream.draw, stream.check),
    Target("batch", 2, batch.draw, batch.check),
)
