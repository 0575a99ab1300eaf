"""The outbox: what is written into a record is published from it, to whoever reads CloudEvents."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.errors import InvalidWrite, TooLarge
from once.events.cloud_event import CloudEvent, read_event
from once.events.dedup_key import key_hash
from once.events.outgoing import OutgoingEvent, draft, events_in, written
from once.schema import Limits
from tests.once.support import Note, event_of, quick

PK = "notes#event#/s#e"
NOW = 1_800_000_000.1239

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
SCALAR = st.none() | st.booleans() | NUMBER | TEXT
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20
)


def outbox(
    *data: Any,
    subject: Any = None,
    inbound: CloudEvent | None = None,
    now: float = NOW,
    pk: str = PK,
) -> str:
    drafts = [draft("counted", each, subject) for each in data]
    return written(drafts, inbound=inbound or event_of(), pk=pk, consumer="notes", now=now)


def read(text: str) -> list[OutgoingEvent]:
    return events_in({"outbox": {"S": text}})


def received(text: str) -> list[CloudEvent]:
    """What a consumer reads of the events that are published from this outbox."""
    return [read_event(event.body, max_bytes=Limits.TOPIC_MESSAGE_BYTES) for event in read(text)]


@quick
@given(st.lists(JSON, min_size=1, max_size=3))
def test_data_is_received_as_it_was_published(data: list[Any]) -> None:
    assert [event.data for event in received(outbox(*data))] == data


@quick
@given(JSON, TEXT)
def test_what_is_published_is_ascii(data: Any, subject: str) -> None:
    # SQS refuses some characters, and counts bytes: escaped, none can be in the way.
    assert outbox(data, subject=subject).isascii()


@quick
@given(JSON, TEXT)
def test_a_subject_is_received_as_it_was_published(data: Any, subject: str) -> None:
    [event] = received(outbox(data, subject=subject))
    assert event.subject == subject


def test_an_event_says_where_it_comes_from_and_when_its_cause_was_committed() -> None:
    [event] = received(outbox({"name": "a"}))
    assert (event.source, event.type, event.subject) == ("/once/notes", "counted", None)
    assert event.time == "2027-01-15T08:00:00.123+00:00"


def test_an_event_has_no_spaces_that_count_for_nothing() -> None:
    [event] = read(outbox({"name": "a", "amounts": [1, 2]}))
    assert event.body.endswith('"data":{"name":"a","amounts":[1,2]}}')


def test_a_model_is_published_as_the_json_that_it_is_read_from() -> None:
    [event] = received(outbox(Note("a", 3)))
    assert event.data == {"name": "a", "amount": 3}


def test_o1_ids_derive_from_the_inbound_key_and_the_position() -> None:
    events = read(outbox("a", "b", "a"))
    assert [event.id for event in events] == [f"{key_hash(PK)}.{n}" for n in range(3)]


def test_o1_ids_of_another_key_are_other_ids() -> None:
    [one], [other] = read(outbox(1)), read(outbox(1, pk="x"))
    assert one.id != other.id


def test_o1_written_later_an_event_has_the_same_id_and_trace() -> None:
    [one], [other] = received(outbox("a")), received(outbox("a", now=NOW + 3600))
    assert (one.id, one.extensions) == (other.id, other.extensions)


def test_the_trace_of_the_inbound_event_is_continued() -> None:
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "shop=1"}
    [event] = received(outbox("a", inbound=event_of(extensions={**trace, "tenant": "t"})))
    assert event.extensions["traceparent"].startswith(f"00-{'a' * 32}-")
    assert event.extensions["tracestate"] == "shop=1"
    assert "tenant" not in event.extensions


def test_published_events_are_told_apart_by_id_and_type() -> None:
    drafts = [draft("stock.reserved", 1, None), draft("stock.refused", 2, None)]
    events = read(written(drafts, inbound=event_of(), pk=PK, consumer="notes", now=NOW))
    assert [event.type for event in events] == ["stock.reserved", "stock.refused"]
    assert [json.loads(event.body)["id"] for event in events] == [event.id for event in events]


def test_a_record_without_an_outbox_has_no_events() -> None:
    assert events_in({"pk": {"S": PK}}) == []


def test_an_outbox_of_nothing_has_no_events() -> None:
    assert read("[]") == []


def nested(depth: int) -> Any:
    data: Any = 1
    for _ in range(depth):
        data = [data]
    return data


def looped() -> Any:
    data: list[Any] = []
    data.append(data)
    return data


UNREADABLE: dict[str, Any] = {
    "not a number": float("nan"),
    "infinity": float("inf"),
    "minus infinity": [float("-inf")],
    "a lone surrogate": {"name": "\ud800"},
    "a lone surrogate as a name": {"\udfff": 1},
    "an integer that no double holds": 2**53,
    "an integer that is no text": 10**5000,
    "nested too deeply for a consumer": nested(70),
    "a loop": looped(),
    "an object": object(),
    "a complex number": 1j,
    "a name that is no text": {("a", "b"): 1},
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_data_that_no_consumer_could_read_is_refused(data: Any) -> None:
    with pytest.raises(InvalidWrite, match="counted c"):
        outbox(data)


@pytest.mark.parametrize("depth", range(850, 1000, 3))
def test_however_deep_data_is_nested_it_is_refused_in_words(depth: int) -> None:
    # Somewhere below the recursion limit one step still manages what the next does not.
    with pytest.raises(InvalidWrite, match="counted c"):
        outbox(nested(depth))


@pytest.mark.parametrize("subject", [7, ["a"], "\ud800"])
def test_a_subject_that_is_no_text_is_refused(subject: Any) -> None:
    with pytest.raises(InvalidWrite, match="counted could be read by no consumer"):
        outbox(1, subject=subject)


SETS = [{3}, frozenset({3}), (3,)]


@pytest.mark.parametrize("data", SETS, ids=repr)
def test_what_json_has_no_form_for_is_published_in_the_nearest(data: Any) -> None:
    assert [event.data for event in received(outbox(data))] == [[3]]


LARGEST = Limits.TOPIC_MESSAGE_BYTES - 1024
"""What is left of SNS's limit when the attributes of the message have had their share."""


def of_size(size: int) -> str:
    [event] = read(outbox(""))
    return "x" * (size - len(event.body))


def test_the_largest_event_is_published() -> None:
    [event] = read(outbox(of_size(LARGEST)))
    assert len(event.body) == LARGEST


def test_an_event_one_byte_larger_is_refused() -> None:
    with pytest.raises(TooLarge, match="counted is too large for the topic"):
        outbox(of_size(LARGEST + 1))
