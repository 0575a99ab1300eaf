"""The outbox: events written into a record are published from it, and consumers can read them."""

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
from tests.once.events.json_values import JSON, TEXT
from tests.once.support import Note, event_of, quick

PK = "notes#event#/s#e"
NOW = 1_800_000_000.1239


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
    """The events of an outbox, as a consumer reads them."""
    return [read_event(event.body, max_bytes=Limits.TOPIC_MESSAGE_BYTES) for event in read(text)]


@quick
@given(st.lists(JSON, min_size=1, max_size=3), TEXT)
def test_events_are_received_as_they_were_published(data: list[Any], subject: str) -> None:
    text = outbox(*data, subject=subject)
    # SQS refuses some characters, and counts bytes: escaped, none can be in the way.
    assert text.isascii()
    events = received(text)
    assert [event.data for event in events] == data
    assert {event.subject for event in events} == {subject}


def test_an_event_says_where_it_comes_from_and_when_its_cause_was_committed() -> None:
    [event] = received(outbox({"name": "a"}))
    assert (event.source, event.type, event.subject) == ("/once/notes", "counted", None)
    assert event.time == "2027-01-15T08:00:00.123+00:00"


def test_an_event_is_written_without_spaces() -> None:
    [event] = read(outbox({"name": "a", "amounts": [1, 2]}))
    assert event.body.endswith('"data":{"name":"a","amounts":[1,2]}}')


NEAREST = {
    "a model": (Note("a", 3), {"name": "a", "amount": 3}),
    "a set": ({3}, [3]),
    "a frozen set": (frozenset({3}), [3]),
    "a tuple": ((3,), [3]),
}


@pytest.mark.parametrize(("data", "form"), NEAREST.values(), ids=NEAREST)
def test_data_of_another_type_is_published_in_the_nearest_form(data: Any, form: Any) -> None:
    assert [event.data for event in received(outbox(data))] == [form]


def test_o1_ids_derive_from_the_inbound_key_and_the_position() -> None:
    events = read(outbox("a", "b", "a"))
    assert [event.id for event in events] == [f"{key_hash(PK)}.{n}" for n in range(3)]
    [other] = read(outbox("a", pk="x"))
    assert other.id == f"{key_hash('x')}.0"


def test_o1_written_later_an_event_has_the_same_id_and_trace() -> None:
    [one], [later] = received(outbox("a")), received(outbox("a", now=NOW + 3600))
    assert (one.id, one.extensions) == (later.id, later.extensions)


def test_the_trace_of_the_inbound_event_is_continued() -> None:
    trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "shop=1"}
    [event] = received(outbox("a", inbound=event_of(extensions={**trace, "tenant": "t"})))
    assert event.extensions["traceparent"].startswith(f"00-{'a' * 32}-")
    assert event.extensions["tracestate"] == "shop=1"
    assert "tenant" not in event.extensions


def test_published_events_carry_their_id_and_type() -> None:
    drafts = [draft("stock.reserved", 1, None), draft("stock.refused", 2, None)]
    events = read(written(drafts, inbound=event_of(), pk=PK, consumer="notes", now=NOW))
    assert [event.type for event in events] == ["stock.reserved", "stock.refused"]
    assert [json.loads(event.body)["id"] for event in events] == [event.id for event in events]


def test_a_record_without_events_has_none_to_publish() -> None:
    assert events_in({"pk": {"S": PK}}) == []
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
    "a lone surrogate in a key": {"\udfff": 1},
    "an integer beyond a double": 2**53,
    "an integer too long for text": 10**5000,
    "nested too deeply for a consumer": nested(70),
    # Below the recursion limit, one step of the writing may still pass where the next fails.
    **{f"nested {depth} levels": nested(depth) for depth in range(850, 1000, 3)},
    "a loop": looped(),
    "an object": object(),
    "a complex number": 1j,
    "a key that is no text": {("a", "b"): 1},
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_data_that_consumers_could_not_read_is_refused(data: Any) -> None:
    with pytest.raises(InvalidWrite, match="counted c"):
        outbox(data)


@pytest.mark.parametrize("subject", [7, ["a"], "\ud800"])
def test_a_subject_that_is_no_text_is_refused(subject: Any) -> None:
    with pytest.raises(InvalidWrite, match="counted could be read by no consumer"):
        outbox(1, subject=subject)


def test_an_event_larger_than_sns_takes_is_refused() -> None:
    largest = Limits.TOPIC_MESSAGE_BYTES - 1024  # kept for the attributes
    [empty] = read(outbox(""))
    data = "x" * (largest - len(empty.body))
    [event] = read(outbox(data))
    assert len(event.body) == largest
    with pytest.raises(TooLarge, match="counted is too large for the topic"):
        outbox(data + "x")
