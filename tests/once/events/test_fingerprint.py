"""The fingerprint: which differences make another event under the same key."""

from typing import Any

import pytest

from once.events.cloud_event import CloudEvent
from once.events.fingerprint import fingerprint
from tests.once.support import event_of

DATA = {"name": "a", "amount": 1, "at": "noon"}
EVENT = event_of(DATA, subject="x")


def changed(**changes: Any) -> CloudEvent:
    return event_of(**{"data": DATA, "subject": "x", **changes})


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
def test_what_a_producer_stamps_anew_on_a_retry_does_not_count(change: dict[str, Any]) -> None:
    assert fingerprint(changed(**change)) == fingerprint(EVENT)


@pytest.mark.parametrize("data", [{**DATA, "at": "night"}, {"name": "a", "amount": 1}])
def test_a_volatile_field_may_differ_or_be_missing(data: Any) -> None:
    volatile = frozenset({"at"})
    expected = fingerprint(EVENT, volatile=volatile)
    assert fingerprint(changed(data=data), volatile=volatile) == expected


def test_only_the_volatile_fields_may_differ() -> None:
    volatile = frozenset({"at"})
    other = changed(data={**DATA, "name": "b"})
    assert fingerprint(other, volatile=volatile) != fingerprint(EVENT, volatile=volatile)


def test_a_volatile_field_is_one_at_the_top() -> None:
    volatile = frozenset({"at"})
    one, other = changed(data={"in": {"at": 1}}), changed(data={"in": {"at": 2}})
    assert fingerprint(one, volatile=volatile) != fingerprint(other, volatile=volatile)


@pytest.mark.parametrize("data", [None, [1], "text"])
def test_volatile_fields_are_of_no_matter_to_other_data(data: Any) -> None:
    event = changed(data=data)
    assert fingerprint(event, volatile={"at"}) == fingerprint(event)


def test_the_event_is_left_as_it_was() -> None:
    fingerprint(EVENT, volatile={"at"})
    assert EVENT.data == DATA
