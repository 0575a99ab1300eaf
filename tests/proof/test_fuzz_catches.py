"""Parsers that are broken on purpose: the short form of the fuzzers notices each of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from once import canonical
from once.fingerprint import fingerprint
from once.verdict import COMMITTED, DUPLICATE
from tests.proof import broken
from tests.proof.fuzzing import first_failure

BROKEN: dict[str, tuple[str, str, Any]] = {
    # Body parser
    "no limit on depth": ("strict_json", "once.strict_json._check_depth", broken.nothing),
    "no limit on size": ("strict_json", "once.strict_json._check_encoding", broken.of_any_size),
    "duplicate keys": (
        "strict_json",
        "once.strict_json._DECODER",
        broken.decoder(object_pairs_hook=dict),
    ),
    "NaN": ("strict_json", "once.strict_json._DECODER", broken.decoder(parse_constant=float)),
    "rounded fractions": (
        "strict_json",
        "once.strict_json._DECODER",
        broken.decoder(parse_float=float),
    ),
    "unsafe integers": ("strict_json", "once.strict_json._DECODER", broken.decoder(parse_int=int)),
    "lone surrogates": ("strict_json", "once.strict_json._check_surrogates", broken.nothing),
    # Events
    "no identity": ("events", "once.events._check_identity", broken.nothing),
    "no content check": ("events", "once.events._check_content", broken.nothing),
    # Originals
    "a bomb taken": ("originals", "ops.originals._inflated", broken.inflated_whole),
    "a bomb inflated": ("originals", "ops.originals._inflated", broken.inflated_then_measured),
    "an original changed": ("originals", "ops.originals.decode", lambda text, **_: 1 / 0),
    "reserved names taken": ("originals", "once.original._RESERVED", "reserved-"),
    # Intake
    "a broken.lenient model": ("intake", "once.intake._convert", broken.lenient),
    "a model that is none": ("intake", "once.intake._convert", lambda event, handler: event.data),
    "an error that is not listed": ("intake", "once.intake.fingerprint", lambda e, volatile: 1 / 0),
    # Keys
    "# is not escaped": ("keys", "once.keys._escape", broken.without_hash),
    "% is not escaped": ("keys", "once.keys._escape", broken.without_percent),
    "keys without NFC": ("keys", "once.keys._escape", broken.without_nfc),
    "1 is the text 1": ("keys", "once.keys._scalar", lambda value, name: f"any:{value}"),
    "no limit on a key": (
        "keys",
        "once.keys.Limits",
        SimpleNamespace(PARTITION_KEY_BYTES=2**20),
    ),
    # Canonical form and fingerprint
    "a form without NFC": ("canonical", "once.canonical._composed", broken.unchanged),
    "a form by sorting": (
        "canonical",
        "once.canonical.rfc8785",
        SimpleNamespace(dumps=broken.merely_sorted),
    ),
    "names that collide": ("canonical", "once.canonical._composed_object", broken.last_member_wins),
    "no subject": (
        "fingerprint",
        "once.fingerprint.digest",
        lambda value: canonical.digest({**value, "subject": None}),
    ),
    "volatile fields count": (
        "fingerprint",
        "proof.fuzz.parsers.canonical.fingerprint",
        lambda event, volatile: fingerprint(event),
    ),
    # Classifier
    "any cancellation is a duplicate": (
        "cancellation",
        "proof.fuzz.parsers.cancellation.judge",
        lambda *_: DUPLICATE,
    ),
    "any content is a duplicate": (
        "cancellation",
        "once.cancellation.judge_record",
        broken.blind_to_content,
    ),
    "pending is a duplicate": (
        "cancellation",
        "once.cancellation.judge_record",
        broken.blind_to_intents,
    ),
    # Committer
    "a group's duplicate is everyone's": ("commit", "once.commit.judge", lambda *_: DUPLICATE),
    "a neighbour's reasons": ("commit", "once.commit._judge_each", broken.all_reasons_to_each),
    "no answer is a commit": (
        "commit",
        "once.commit.Committer._unanswered",
        lambda self, claims: [COMMITTED] * len(claims),
    ),
    "an expired record counts": (
        "commit",
        "once.record.StoredRecord.expired",
        lambda self, now: False,
    ),
    # Readers
    "no intent": ("stored", "once.record.Intent.read", lambda item: None),
    "an error of the readers": ("stored", "once.record.Intent.read", lambda item: 1 / 0),
    # Stream
    "an outbox skipped": ("stream", "once.relay.events_in", broken.unreadable_is_empty),
    "an update published": ("stream", "once.relay._is_new", broken.by_name_alone),
    "HTTP 200 believed": ("stream", "once.publisher._refused", lambda batch, answer: iter(())),
    # Batch
    "no net under a record": ("batch", "once.intake.Intake.read", broken.read_without_net),
    "a quarantine forgotten": (
        "batch",
        "once.batch.Batch._quarantined",
        lambda self, delivery, error: True,
    ),
    "a commit made up": (
        "batch",
        "once.commit.Committer.commit",
        lambda self, claims: [COMMITTED] * len(claims),
    ),
}
FOUND = {
    "no limit on depth": "what is read is what was written",
    "# is not escaped": "one identity, one key",
    "% is not escaped": "one identity, one key",
    "keys without NFC": "one identity, one key",
    "a form without NFC": "one meaning, one canonical form",
    "volatile fields count": "one content, one fingerprint",
    "any cancellation is a duplicate": "a duplicate is what the record shows",
    "a bomb inflated": "a bomb does not go off",
    "a commit made up": "what is acknowledged is committed",
}
"""The property that is sure to be the first, where the name says which."""


@pytest.mark.parametrize(("parser", "place", "replacement"), BROKEN.values(), ids=BROKEN)
def test_a_broken_parser_is_caught(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    parser: str,
    place: str,
    replacement: Any,
) -> None:
    monkeypatch.setattr(place, replacement)
    found = first_failure(parser)
    assert found is not None
    assert FOUND.get(request.node.callspec.id, found) == found
