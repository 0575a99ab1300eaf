"""The fingerprint: which parts of an event must not differ under the same key."""

from typing import Any

import pytest

from once.events.cloud_event import CloudEvent
from once.events.fingerprint import fingerprint
from tests.once.support import event_of

DATA = {"name": "a", "amount": 1, "at": "noon"}
VOLATILE = frozenset({"at"})


def changed(**changes: Any) -> CloudEvent:
    return event_of(**{"data": DATA, "subject": "x", **changes})


EVENT = changed()


def test_a_fingerprint_is_64_hexadecimal_digits() -> None:
    assert len(bytes.fromhex(fingerprint(EVENT))) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"type": "other"},
        {"subject": "y"},
        {"subject": None},
        {"data": None},
        {"data": {**DATA, "amount": 2}},
        {"data": {**DATA, "amount": "1"}},
        {"data": {**DATA, "more": None}},
        {"data": {"name": "a", "amount": 1}},
        {"data": [DATA]},
    ],
)
def test_type_subject_and_data_count(change: dict[str, Any]) -> None:
    assert fingerprint(changed(**change)) != fingerprint(EVENT)


@pytest.mark.parametrize(
    "change",
    [
        {"time": "2026-01-01T00:00:00Z"},
        {"extensions": {"traceparent": "00-1"}},
        {"id": "another"},
        {"source": "/another"},
        {"data": {"at": "noon", "amount": 1.0, "name": "a"}},
    ],
)
def test_attributes_that_a_retry_changes_do_not_count(change: dict[str, Any]) -> None:
    assert fingerprint(changed(**change)) == fingerprint(EVENT)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(DATA, {**DATA, "at": "night"}, True, id="differs"),
        pytest.param(DATA, {"name": "a", "amount": 1}, True, id="missing"),
        pytest.param(DATA, {**DATA, "name": "b"}, False, id="another field"),
        pytest.param({"in": {"at": 1}}, {"in": {"at": 2}}, False, id="inside another field"),
    ],
)
def test_a_volatile_field_does_not_count_at_the_top(one: Any, other: Any, *, same: bool) -> None:
    found = [fingerprint(changed(data=data), volatile=VOLATILE) for data in (one, other)]
    assert (found[0] == found[1]) is same


@pytest.mark.parametrize("data", [None, [1], "text"])
def test_other_data_than_an_object_has_no_volatile_fields(data: Any) -> None:
    event = changed(data=data)
    assert fingerprint(event, volatile=VOLATILE) == fingerprint(event)


def test_the_event_is_left_unchanged() -> None:
    fingerprint(EVENT, volatile=VOLATILE)
    assert EVENT.data == {"name": "a", "amount": 1, "at": "noon"}
