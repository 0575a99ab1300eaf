"""Parsers that are broken on purpose: the short form of the fuzzers notices each of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from once.commit.result import COMMITTED, DUPLICATE
from once.events.fingerprint import fingerprint
from tests.proof import broken
from tests.proof.fuzzing import first_failure

BROKEN: dict[str, tuple[str, str, Any]] = {
    # Body parser
    "no limit on depth": ("strict_json", "once.events.strict_json._check_depth", broken.nothing),
    "no limit on size": (
        "strict_json",
        "once.events.strict_json._check_encoding",
        broken.of_any_size,
    ),
    "duplicate keys": (
        "strict_json",
        "once.events.strict_json._DECODER",
        broken.decoder(object_pairs_hook=dict),
    ),
    "NaN": (
        "strict_json",
        "once.events.strict_json._DECODER",
        broken.decoder(parse_constant=float),
    ),
    "rounded fractions": (
        "strict_json",
        "once.events.strict_json._DECODER",
        broken.decoder(parse_float=float),
    ),
    "unsafe integers": (
        "strict_json",
        "once.events.strict_json._DECODER",
        broken.decoder(parse_int=int),
    ),
    "lone surrogates": ("strict_json", "once.events.strict_json._check_surrogates", broken.nothing),
    # Events
    "no identity": ("events", "once.events.cloud_event._check_identity", broken.nothing),
    "no content check": ("events", "once.events.cloud_event._check_content", broken.nothing),
    # Originals
    "a bomb taken": (
        "originals",
        "once.ops.dead_letters.decompression._inflated",
        broken.inflated_whole,
    ),
    "a bomb inflated": (
        "originals",
        "once.ops.dead_letters.decompression._inflated",
        broken.inflated_then_measured,
    ),
    "an original changed": (
        "originals",
        "once.ops.dead_letters.decompression.decode",
        lambda text, **_: 1 / 0,
    ),
    "reserved names taken": ("originals", "once.intake.original_message._RESERVED", "reserved-"),
    # Intake
    "a broken.lenient model": ("intake", "once.intake.reader._convert", broken.lenient),
    "a model that is none": (
        "intake",
        "once.intake.reader._convert",
        lambda event, handler: event.data,
    ),
    "an error that is not listed": (
        "intake",
        "once.intake.reader.fingerprint",
        lambda e, volatile: 1 / 0,
    ),
    # Keys
    "# is not escaped": ("keys", "once.events.dedup_key._escape", broken.without_hash),
    "% is not escaped": ("keys", "once.events.dedup_key._escape", broken.without_percent),
    "keys without NFC": ("keys", "once.events.dedup_key._escape", broken.without_nfc),
    "1 is the text 1": (
        "keys",
        "once.events.dedup_key._scalar",
        lambda value, name: f"any:{value}",
    ),
    "no limit on a key": (
        "keys",
        "once.events.dedup_key.Limits",
        SimpleNamespace(PARTITION_KEY_BYTES=2**20),
    ),
    # Canonical form and fingerprint
    "a form without NFC": ("canonical", "once.events.fingerprint._composed", broken.unchanged),
    "a form by sorting": (
        "canonical",
        "once.events.fingerprint.rfc8785",
        SimpleNamespace(dumps=broken.merely_sorted),
    ),
    "names that collide": (
        "canonical",
        "once.events.fingerprint._composed_object",
        broken.last_member_wins,
    ),
    "no subject": (
        "fingerprint",
        "once.events.fingerprint.digest",
        broken.without_subject,
    ),
    "volatile fields count": (
        "fingerprint",
        "proof.fuzz.parsers.canonical.fingerprint",
        lambda event, volatile: fingerprint(event),
    ),
    # Classifier
    "any cancellation is a duplicate": (
        "cancellation",
        "proof.fuzz.parsers.cancellation.classify",
        lambda *_: DUPLICATE,
    ),
    "any content is a duplicate": (
        "cancellation",
        "once.commit._cancellation.classify_record",
        broken.blind_to_content,
    ),
    "pending is a duplicate": (
        "cancellation",
        "once.commit._cancellation.classify_record",
        broken.blind_to_intents,
    ),
    # Committer
    "a group's duplicate is everyone's": (
        "commit",
        "once.commit.committer.classify",
        lambda *_: DUPLICATE,
    ),
    "a neighbour's reasons": (
        "commit",
        "once.commit.committer._classify_each",
        broken.all_reasons_to_each,
    ),
    "no answer is a commit": (
        "commit",
        "once.commit.committer.Committer._unanswered",
        lambda self, claims: [COMMITTED] * len(claims),
    ),
    "an expired record counts": (
        "commit",
        "once.commit.dedup_record.StoredRecord.expired",
        lambda self, now: False,
    ),
    # Readers
    "no intent": ("stored", "once.commit.dedup_record.Intent.read", lambda item: None),
    "an error of the readers": (
        "stored",
        "once.commit.dedup_record.Intent.read",
        lambda item: 1 / 0,
    ),
    # Stream
    "an outbox skipped": (
        "stream",
        "once.outbox.stream_relay.events_in",
        broken.unreadable_is_empty,
    ),
    "an update published": ("stream", "once.outbox.stream_relay._is_new", broken.by_name_alone),
    "HTTP 200 believed": (
        "stream",
        "once.outbox._sns_publisher._refused",
        lambda batch, answer: iter(()),
    ),
    # Batch
    "no net under a record": (
        "batch",
        "once.intake.reader.RecordReader.read",
        broken.read_without_net,
    ),
    "a quarantine forgotten": (
        "batch",
        "once.failures.failure_handler.FailureHandler._quarantined",
        lambda self, delivery, error: True,
    ),
    "a commit made up": (
        "batch",
        "once.commit.committer.Committer.commit",
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
