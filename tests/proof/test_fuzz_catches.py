"""The short form of the fuzzers: passes for sound parsers, and notices each broken one."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from once.commands import http_door
from once.commands.answer import Reply
from once.commit.result import COMMITTED
from once.events import identity, strict_json
from once.intake.reader import Delivery
from once.runtime.deadline import Deadline
from once.runtime.lambda_http import Request, claims_of
from proof.fuzz import search
from proof.fuzz.command import PARSERS
from proof.fuzz.search import Found
from proof.mutants.edits import Change, edit, value

SEED, MOST = "20260", 4000

_check_limits = strict_json._check_limits
_digest = identity.digest
_key_in = http_door.key_in
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


def lenient(event: Any, handler: Any) -> Any:
    return msgspec.convert(event.data, handler.model, strict=False)


def with_sorted_keys(value: Any, **_: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode()


def read_without_net(self: Any, delivery: Delivery, deadline: Deadline) -> Any:
    delivery.decoded = self._decode(delivery, deadline)
    return delivery.decoded


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
    ("intake", "once.events.claim_check"): {
        "nesting escapes": ("UNREADABLE", ValueError),
    },
    ("intake", "once.intake.reader"): {
        "lenient model": ("converted", lenient),
        "no model": ("converted", lambda event, handler: event.data),
        "undocumented error": ("key_and_fingerprint", error),
    },
    ("identity", "once.events.identity"): {
        "form without NFC in the slow form": ("_composed", lambda text: text),
        "every number is plain": ("has_plain_numbers", lambda values: True),
        "no subject": ("digest", lambda value: _digest({**value, "subject": None})),
    },
    ("identity", "proof.fuzz.values"): {
        "form with sorted keys only": ("canonical", with_sorted_keys),
        "volatile fields count": ("fingerprint", lambda event, **_: identity.fingerprint(event)),
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
        "ids that end anywhere": ("endpoint.Profile.id_end", ""),
        "ids of any length": ("webhook.MAX_ID_BYTES", 10**9),
        "the content type decides": ("webhook._data", by_content_type),
        "another type is a duplicate": ("endpoint.Profile.has_signed_type", True),
    },
    ("commands", "once.commands.http_door"): {
        "a key without parameters": ("_KEY_ITEM", re.compile(f" *{http_door._STRING} *")),
        "a key of a list": ("_KEY_ITEM", re.compile(f"{http_door._KEY_ITEM.pattern}.*", re.A)),
        "parameters in any script": ("_KEY_ITEM", re.compile(http_door._KEY_ITEM.pattern)),
        "escapes are part of a key": ("_ESCAPED", re.compile("(?!)")),
        "keys of any length": ("MAX_KEY_BYTES", 10**9),
        "a key with its parameters": ("key_in", lambda header: _key_in(header) and header),
        "a number is a key": ("_BARE_UUID", re.compile(r" *([\w-]+) *")),
    },
    ("commands", "once.commands"): {
        "one scope": ("scope.Scope.of", lambda *_: "any"),
        "a blank caller": ("scope.Scope.of", lambda _, event: json.dumps(claims_of(event))),
        "one shape of answers": ("http_door.answer_to", lambda _, answer: answer),
    },
    ("commands", "once.commands.runner"): {
        "an answer is not repeated": ("CommandRunner._repeated", lambda *_: Reply(201, {}, b"{}")),
    },
}
"""By parser and module: titles, names in the module, and replacements for them."""
_HEADERS = '",".join(map(_text, values))'
EDITS: dict[str, tuple[str, Change]] = {
    "form without NFC": (
        "identity",
        edit(identity.canonical, 'unicodedata.is_normalized("NFC", form.decode())', "True"),
    ),
    "the first of two headers": ("commands", edit(Request.of, _HEADERS, "_text(values[0])")),
    "names of headers in their case": (
        "commands",
        edit(Request.of, "_text(name).lower()", "_text(name)"),
    ),
}

FOUND = {
    "no depth limit": "a text that is not strict JSON is refused",
    "form without NFC": "equal meanings have one canonical form, others do not",
    "volatile fields count": "equal contents have one fingerprint, others do not",
    "no commit": "an acknowledged message is committed",
    "the content type decides": "signed bytes are read in one way",
    "another type is a duplicate": "a type is never a duplicate",
    "a key without parameters": "a well-formed key is read, and no other",
    "a key of a list": "a well-formed key is read, and no other",
    "parameters in any script": "a well-formed key is read, and no other",
    "keys of any length": "a well-formed key is read, and no other",
    "one scope": "a record has the key that was sent, and its sender",
    "no tolerance": "a signed time is timely on both sides",
    "tolerance of the past only": "a signed time is timely on both sides",
}
"""The property that must be seen to fail; any failure will do for the other broken parsers."""


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_sound_parsers_pass_the_short_form(
    parser: search.Parser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(search, "DATABASE", tmp_path)
    assert search.fuzz(parser, SEED, 200) == Found(200)


@pytest.mark.parametrize(
    ("parser", "change"),
    [
        *(
            pytest.param(parser, value(f"{module}.{name}", replacement), id=title)
            for (parser, module), cases in BROKEN.items()
            for title, (name, replacement) in cases.items()
        ),
        *(pytest.param(*case, id=title) for title, case in EDITS.items()),
    ],
)
def test_a_broken_parser_is_caught(
    request: pytest.FixtureRequest, parser: str, change: Change
) -> None:
    [tested] = [each for each in PARSERS if each.name == parser]
    expected, rng = FOUND.get(request.node.callspec.id), Random(f"{SEED} {parser}")
    with change():
        errors = (tested.failure(tested.draw(rng)) for _ in range(MOST))
        assert any(error and expected in (error, None) for error in errors)
