"""The short form of the fuzzers: passes for sound parsers, and notices each broken one."""

import json
import re
import zlib
from time import monotonic
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from once.commit.result import COMMITTED
from once.errors import OnceError, Unpublishable
from once.events import identity, outgoing, strict_json
from once.intake.reader import Delivery
from once.ops.dead_letters import dead_letter
from once.runtime.deadline import Deadline
from proof.fuzz import search
from proof.fuzz.command import PARSERS
from proof.fuzz.search import Found
from proof.mutants.edits import Change, edit, value

SEED, CHUNK, CHUNKS = "20260", 50, 80

_check_limits = strict_json._check_limits
_digest = identity.digest
_HANDLER = "failures.failure_handler.FailureHandler"


def nothing(*_: Any, **__: Any) -> None:
    pass


def error(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


def all_committed(_: Any, requests: Any) -> Any:
    return [COMMITTED] * len(requests)


def decoder(**hooks: Any) -> json.JSONDecoder:
    """Return the strict decoder with some hooks replaced."""
    names = ("object_pairs_hook", "parse_int", "parse_float", "parse_constant")
    strict = {name: getattr(strict_json._DECODER, name) for name in names}
    return json.JSONDecoder(**strict | hooks)


def timely_before(_: Any, signed: Any, now: float) -> bool:
    return signed.seconds is None or now - signed.seconds <= 300


def by_content_type(endpoint: Any, request: Any) -> Any:
    is_json = request.headers.get("content-type") == "application/json"
    return strict_json.parse(request.body.decode(), max_bytes=endpoint.limit) if is_json else None


def formatted(signed: Any, template: str) -> bytes:
    given = {"id": signed.id, "timestamp": signed.timestamp, "body": signed.body.decode("latin-1")}
    return template.format(**given).format(**given).encode("latin-1")


def inflated(packed: bytes) -> bytes:
    return zlib.decompress(packed, 31)


def inflated_then_measured(packed: bytes) -> bytes:
    content = inflated(packed)
    if len(content) > dead_letter.MAX_DECOMPRESSED_BYTES:
        raise ValueError
    return content


def lenient(event: Any, handler: Any) -> Any:
    return msgspec.convert(event.data, handler.model, strict=False)


def with_sorted_keys(value: Any, **_: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode()


class Confirmed(msgspec.Struct, rename="pascal"):
    """A notification, or any other message of SNS."""

    message_id: str
    topic_arn: str
    message: str
    timestamp: str
    type = "Notification"


def with_long_versions(key: str, version: str, sequencer: str) -> str:
    return f"{sequencer}/{version}/{version}/{version}/{key}"


def read_without_net(self: Any, delivery: Delivery, deadline: Deadline) -> Any:
    delivery.decoded = self._decode(delivery, deadline)
    return delivery.decoded


def refused(item: Any) -> Any:
    if len(events := outgoing.events_in(item)) > 1:
        raise Unpublishable("too many events")
    return events


def unreadable_is_empty(item: Any) -> Any:
    try:
        return outgoing.events_in(item)
    except OnceError:
        return []


BROKEN: dict[tuple[str, str], dict[str, tuple[str, Any]]] = {
    ("strict_json", "once.events.strict_json"): {
        "no depth limit": ("_check_depth", nothing),
        "no size limit": ("_check_limits", lambda text, _: _check_limits(text, 2**40)),
        "no container limit": ("_check_containers", nothing),
        "duplicate keys": ("_DECODER", decoder(object_pairs_hook=dict)),
        "NaN": ("_DECODER", decoder(parse_constant=float)),
        "rounded fractions": ("_DECODER", decoder(parse_float=float)),
        "unsafe integers": ("_DECODER", decoder(parse_int=int)),
        "lone surrogates": ("_check_surrogates", nothing),
    },
    ("intake", "once.events.cloud_event"): {
        "no identity": ("_check_identity", nothing),
        "no content check": ("_check_content", nothing),
    },
    ("envelopes", "once.intake.envelopes"): {
        "time in the data": ("S3Object", lambda **given: {**given, "now": monotonic()}),
        "no sequencer in the identity": ("_object_identity", lambda key, version, sequencer: key),
        "keys of any length": ("_KEY_BYTES", 10**9),
        "versions twice in the identity": ("_object_identity", with_long_versions),
        "a key that is not decoded": ("_decoded_key", lambda key: key),
        "a keyword for a time": ("_TIME", re.compile(".*", re.DOTALL)),
        "a confirmation is an event": ("_Notification", Confirmed),
    },
    ("envelopes", "once.outbox.unrouted"): {
        "nesting escapes the sweep": ("UNREADABLE", msgspec.DecodeError),
        "bad UTF-8 or JSON escapes the sweep": ("UNREADABLE", RecursionError),
        "another attribute is the type": ("EVENT_TYPE_ATTRIBUTE", "Type"),
    },
    ("intake", "once.ops.dead_letters.dead_letter"): {
        "bomb decompressed": ("_inflated", inflated),
        "bomb decompressed and refused": ("_inflated", inflated_then_measured),
        "original changed": ("decode", error),
    },
    ("intake", "once.intake.original_message"): {
        "reserved names": ("_RESERVED", "reserved-"),
    },
    ("intake", "once.events.claim_check"): {
        "nesting escapes": ("UNREADABLE", ValueError),
    },
    ("stream", "once.events.outgoing"): {
        "nesting of an outbox escapes": ("UNREADABLE", (ValueError,)),
    },
    ("intake", "once.intake.reader"): {
        "lenient model": ("_convert", lenient),
        "no model": ("_convert", lambda event, handler: event.data),
        "undocumented error": ("key_and_fingerprint", error),
    },
    ("identity", "once.events.identity"): {
        "number 1 equals text 1": ("_scalar", lambda value, name: f"any:{value}"),
        "no key limit": ("Limits", SimpleNamespace(PARTITION_KEY_BYTES=2**20)),
        "form without NFC in the slow form": ("_composed", lambda text: text),
        "every number is plain": ("has_plain_numbers", lambda values: True),
        "no subject": ("digest", lambda value: _digest({**value, "subject": None})),
    },
    ("identity", "proof.fuzz.identity"): {
        "form with sorted keys only": ("canonical", with_sorted_keys),
        "volatile fields count": ("fingerprint", lambda event, **_: identity.fingerprint(event)),
    },
    ("stream", "once.outbox"): {
        "outbox skipped": ("relay.events_in", unreadable_is_empty),
        "readable outbox refused": ("relay.events_in", refused),
        "update published": ("relay.is_new", lambda r: r["eventName"] != "REMOVE"),
    },
    ("batch", "once"): {
        "error escapes": ("intake.reader.RecordReader.read", read_without_net),
        "no quarantine": (f"{_HANDLER}._quarantined", lambda *_: True),
        "no commit": ("commit.committer.Committer.commit", all_committed),
    },
    ("webhooks", "once.webhooks"): {
        "any signature counts": ("signature._is_signed", lambda *_: True),
        "no tolerance": ("signature._is_timely", lambda *_: True),
        "tolerance of the past only": ("signature._is_timely", timely_before),
        "an id as a template": ("signature.SignedRequest.content", formatted),
        "errors of a package escape": ("signature._standard_hmac", error),
        "every digit counts": ("signature._SECONDS", re.compile(r"\d+")),
        "ids of any length": ("webhook.MAX_ID_BYTES", 10**9),
        "the content type decides": ("webhook._data", by_content_type),
        "another type is a duplicate": ("endpoint.Profile.has_signed_type", True),
    },
}
"""By parser and module: titles, names in the module, and replacements for them."""
EDITED: dict[tuple[str, str], Change] = {
    ("identity", "# not escaped"): edit(identity.Key.of, '.replace("#", "%23")', ""),
    ("identity", "% not escaped"): edit(identity.Key.of, '.replace("%", "%25")', ""),
    ("identity", "no NFC"): edit(identity.Key.of, "_composed(part)", "part"),
    ("identity", "form without NFC"): edit(
        identity.canonical, 'unicodedata.is_normalized("NFC", form.decode())', "True"
    ),
}
"""By parser and title: words of the source, and what replaces them."""

KEYS_DIFFER = "equal identities have equal keys, others do not"
FOUND = {
    "no depth limit": "a text that is not strict JSON is refused",
    "# not escaped": KEYS_DIFFER,
    "% not escaped": KEYS_DIFFER,
    "no NFC": KEYS_DIFFER,
    "form without NFC": "equal meanings have one canonical form, others do not",
    "volatile fields count": "equal contents have one fingerprint, others do not",
    "bomb decompressed and refused": "a compression bomb is not decompressed",
    "readable outbox refused": "every committed event is published",
    "no sequencer in the identity": "an event is identified by its sequencer",
    "keys of any length": "a key is no longer than S3 allows",
    "versions twice in the identity": "an id is no longer than what identifies the object",
    "a key that is not decoded": "the subject is the key of the object",
    "a keyword for a time": "a scheduled event has the id of its time",
    "a confirmation is an event": "a confirmation is no event",
    "another attribute is the type": "a type is an attribute",
    "no commit": "an acknowledged message is committed",
    "the content type decides": "signed bytes are read in one way",
    "another type is a duplicate": "a type is never a duplicate",
    "no tolerance": "a signed time is timely on both sides",
    "tolerance of the past only": "a signed time is timely on both sides",
}
"""The property that must be seen to fail; any failure will do for the other broken parsers."""


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_sound_parsers_pass_the_short_form(parser: search.Parser) -> None:
    assert search.sample(parser, SEED, 4 * CHUNK, Found()) == Found(4 * CHUNK)


@pytest.mark.parametrize(
    ("parser", "change"),
    [
        *(
            pytest.param(parser, value(f"{module}.{name}", replacement), id=title)
            for (parser, module), cases in BROKEN.items()
            for title, (name, replacement) in cases.items()
        ),
        *(pytest.param(parser, one, id=title) for (parser, title), one in EDITED.items()),
    ],
)
def test_a_broken_parser_is_caught(
    request: pytest.FixtureRequest, parser: str, change: Change
) -> None:
    [tested] = [each for each in PARSERS if each.name == parser]
    expected, found = FOUND.get(request.node.callspec.id), Found()
    with change():
        samples = (search.sample(tested, f"{SEED}/{n}", CHUNK, found) for n in range(CHUNKS))
        assert any(expected in found.rough if expected else found.rough for _ in samples)
