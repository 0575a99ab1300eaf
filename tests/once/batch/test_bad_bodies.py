"""Invalid bodies: a dead letter with its reason for each, and the other messages commit."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from once.events.identity import Key
from tests.in_memory import Start
from tests.once.batch.batches import message
from tests.once.batch.function import Function
from tests.once.support import amounts, consumer_of, count, facts, failures, note, quick, record

GOOD = json.dumps(note())


def event(**changes: Any) -> str:
    return json.dumps({**note("bad"), **changes})


def raw(data: str) -> str:
    """An event whose data is this JSON text."""
    return f'{{"specversion":"1.0","id":"e","source":"/s","type":"noted","data":{data}}}'


BAD: dict[str, tuple[str, str]] = {
    "empty": ("", "unparseable"),
    "blank": (" \n", "unparseable"),
    "not JSON": ("hello", "unparseable"),
    "byte order mark": ("\ufeff" + GOOD, "unparseable"),
    "no object": ("[]", "invalid-event"),
    "null": ("null", "invalid-event"),
    "no id": (json.dumps({k: v for k, v in note().items() if k != "id"}), "no-key"),
    "null id": (event(id=None), "no-key"),
    "empty object": ("{}", "no-key"),
    "id of another type": (event(id=5), "invalid-event"),
    "unknown type": (event(type="unheard"), "unknown-type"),
    "data of another type": (event(data="text"), "invalid-data"),
    "data without a field": (event(data={}), "invalid-data"),
    "field of another type": (event(data={"name": 1}), "invalid-data"),
    "fraction for a whole number": (raw('{"name":"a","amount":1.5}'), "invalid-data"),
    "1 MiB": ('"' + "x" * (2**20 - 2) + '"', "too-large"),
    "key twice": (raw('{"name":"a","name":"a"}'), "unparseable"),
    "keys one when composed": (raw('{"name":"a","é":1,"e\u0301":2}'), "unparseable"),
    "NaN": (raw('{"name":"a","amount":NaN}'), "unparseable"),
    "1e400": (raw('{"name":"a","amount":1e400}'), "unparseable"),
    "long exponent": (raw('{"name":"a","amount":1e-99999999999999999999}'), "unparseable"),
    "4,301 digits": (raw('{"name":"a","amount":' + "9" * 4301 + "}"), "unparseable"),
    "escaped surrogate": (raw('{"name":"\\ud800"}'), "unparseable"),
    "raw surrogate": (raw('{"name":"\ud800"}'), "unparseable"),
    "nested 10,000 deep": (raw("[" * 10_000 + "]" * 10_000), "unparseable"),
    "key too long": (event(id="x" * 3000), "too-large"),
    "XML": ("<event/>", "unparseable"),
    "SNS envelope": (json.dumps({"Type": "Notification", "Message": GOOD}), "no-key"),
}


@pytest.mark.parametrize(("body", "reason"), BAD.values(), ids=BAD)
def test_an_invalid_body_is_quarantined_alone(function: Function, body: str, reason: str) -> None:
    function.run(message("x"), record(body, "m-2"), message("y"))
    assert function.amounts == {"x": 1, "y": 1}
    [letter] = function.aws.dead_letters()
    assert facts(letter)["reason"] == reason
    assert facts(letter)["lineage"] == "m-2"


def test_two_spellings_of_an_event_are_one_event(function: Function) -> None:
    bodies = [raw('{"name":"\u00e9","amount":2}'), raw(' {"amount":2, "name":"e\\u0301"} ')]
    function.run(*(record(body, body) for body in bodies))
    assert function.amounts == {"é": 2}
    assert function.reasons() == []


def test_volatile_fields_are_no_part_of_a_key_by_content(start: Start) -> None:
    aws = start(consumer_of(count, key=Key.content(), volatile=("amount",)))
    assert failures(aws.deliver(note("a", 1), note("a", 2))) == []
    assert amounts(aws) == {"a": 1}
    assert aws.dead_letters() == []


FRAGMENTS = st.sampled_from(
    ['{"id":', '"', "\\", "null", "1", ",", "}", "[", "]", "\\ud800", "é", "\x7f", "NaN", "e9", " "]
)
BODIES = st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.lists(FRAGMENTS).map("".join)


def test_any_body_is_answered(function: Function) -> None:
    @settings(quick, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(BODIES)
    def check(body: str) -> None:
        function.run(record(body, "m-1"))

    check()
