"""The outbox: events written into a record, which consumers can read, and their trace context."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from once.errors import InvalidWrite, TooLarge
from once.events.cloud_event import CloudEvent, read_event
from once.events.identity import key_hash
from once.events.outgoing import (
    ClaimPlace,
    Draft,
    OutgoingEvent,
    draft,
    events_in,
    trace_context,
    wait_of,
    written,
)
from once.names import Limits
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
    text = outbox({"name": "a"})
    [event], [outgoing] = received(text), read(text)
    assert (outgoing.id, outgoing.source, outgoing.type) == (event.id, event.source, event.type)
    assert (event.source, event.type, event.subject) == ("/once/notes", "counted", None)
    assert event.time == "2027-01-15T08:00:00.123+00:00"
    envelope = json.loads(outgoing.body)
    assert envelope["datacontenttype"] == "application/json"
    assert "subject" not in envelope


@quick
@given(JSON | st.lists(st.text(st.characters(max_codepoint=127))))
@example("\x7f")
@example("é")
def test_an_event_is_written_as_json_dumps_writes_it(data: Any) -> None:
    [event] = read(outbox(data))
    assert event.body == json.dumps(json.loads(event.body), separators=(",", ":"))


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
    "a loop": looped(),
    "an object": object(),
    "a complex number": 1j,
    "a key that is no text": {("a", "b"): 1},
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_data_that_consumers_could_not_read_is_refused(data: Any) -> None:
    with pytest.raises(InvalidWrite, match="counted c"):
        outbox(data)


def test_data_that_is_nested_to_the_recursion_limit_is_refused() -> None:
    # Below the limit, one step of the writing may still pass where the next fails.
    for depth in range(850, 1000, 7):
        with pytest.raises(InvalidWrite, match="counted c"):
            outbox(nested(depth))


def test_a_subject_that_is_no_text_is_refused() -> None:
    for subject in (7, ["a"], "\ud800"):
        with pytest.raises(InvalidWrite, match="counted could be read by no consumer"):
            outbox(1, subject=subject)


def test_an_event_of_a_grouped_type_has_its_group_or_is_refused() -> None:
    made = draft("counted", Note("a"), "s", grouped_by="name")
    assert (made.data["name"], made.subject, made.group) == ("a", "s", "a")
    error = (
        "^counted cannot be published: its message group is the field 'name' of the data, which "
        "must be a non-blank string or a whole number; set it, or change ordered_by= or fair_by= "
        "of the consumer that takes this type$"
    )
    with pytest.raises(InvalidWrite, match=error):
        draft("counted", Note(" "), None, grouped_by="name")


def test_an_event_larger_than_sns_takes_is_refused() -> None:
    largest = Limits.TOPIC_MESSAGE_BYTES - 1024  # kept for the attributes
    [empty] = read(outbox(""))
    data = "x" * (largest - len(empty.body))
    [event] = read(outbox(data))
    assert len(event.body) == largest
    with pytest.raises(TooLarge, match="counted is too large for the topic"):
        outbox(data + "x")


PLACE = ClaimPlace("claims", "notes", max_bytes=1024 * 1024)
INLINE, RECORD = 240 * 1024, 300 * 1024
"""The most bytes of the data of one event, and of all events of a record."""


def sized(size: int) -> Draft:
    """Return a draft with so many bytes of data."""
    return draft("counted", ["x" * (size - len('["",1]')), 1], None)


def test_data_that_fits_neither_event_nor_record_is_claimed() -> None:
    largest = PLACE.fitting(sized(INLINE), [], PK)
    assert (largest.inline_bytes, largest.claim) == (INLINE, None)
    last = PLACE.fitting(sized(RECORD - INLINE), [largest], PK)
    assert (last.inline_bytes, last.claim) == (RECORD - INLINE, None)
    for size, before in ((INLINE + 1, []), (RECORD - INLINE + 1, [largest])):
        moved = PLACE.fitting(sized(size), before, PK)
        assert moved.claim is not None
        assert moved.claim.content == json.dumps(sized(size).data, separators=(",", ":")).encode()
        assert (moved.data, moved.inline_bytes) == (None, 0)


def test_data_that_no_consumer_could_read_is_not_claimed() -> None:
    with pytest.raises(TooLarge, match=r"^counted is too large for the claim check: "):
        PLACE.fitting(sized(PLACE.max_bytes + 1), [], PK)
    unreadable = draft("counted", [*sized(INLINE).data, 2**53], None)
    with pytest.raises(InvalidWrite, match=r"^counted could be read by no consumer: "):
        PLACE.fitting(unreadable, [], PK)


# Due events: published at a time after the commit.


def due(wait: Any, data: Any = 1) -> str:
    made = replace(draft("counted", data, None), wait=wait)
    return written([made], inbound=event_of(), pk=PK, consumer="notes", now=NOW)


HALF_PAST = datetime(2027, 1, 15, 8, 30, tzinfo=UTC)
DUE: dict[str, tuple[Any, str, int]] = {
    "after": (timedelta(minutes=30), "2027-01-15T08:30:01.000+00:00", 1_800_001_801),
    "at": (HALF_PAST, "2027-01-15T08:30:00.000+00:00", 1_800_001_800),
    "at, in another zone": (
        datetime(2027, 1, 15, 9, 30, 0, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        "2027-01-15T08:30:01.000+00:00",
        1_800_001_801,
    ),
    "at once": (timedelta(0), "2027-01-15T08:00:00.000+00:00", 1_800_000_000),
    "in the past": (timedelta(seconds=-60), "2027-01-15T07:59:00.000+00:00", 1_799_999_940),
}


@pytest.mark.parametrize(("wait", "time", "seconds"), DUE.values(), ids=DUE)
def test_a_due_event_has_its_time_rounded_up_and_says_when_it_was_set(
    wait: Any, time: str, seconds: int
) -> None:
    [event], [found] = received(due(wait)), read(due(wait))
    assert (event.time, found.due) == (time, seconds)
    assert event.extensions["oncedue"] == "2027-01-15T08:00:00.123+00:00"
    assert found.id == read(outbox(1))[0].id


def test_a_time_that_cannot_be_meant_is_refused() -> None:
    hour = timedelta(hours=1)
    refused: list[tuple[str, Any, Any]] = [
        ("both after= and at=: give one", hour, HALF_PAST),
        ("at= without a time zone: give", None, HALF_PAST.replace(tzinfo=None)),
        ("a time of another type: give after=timedelta", 1800, None),
        ("a time of another type: give after=timedelta", None, hour),
    ]
    for fault, after, at in refused:
        with pytest.raises(InvalidWrite, match=f"^counted has {fault}"):
            wait_of("counted", after, at)
    due(timedelta(days=365))
    with pytest.raises(InvalidWrite, match=r"^counted is to be published in 366 days: give a time"):
        due(timedelta(days=366))


def test_scheduler_finds_nothing_to_replace_in_a_due_event() -> None:
    keyword = "<aws.scheduler.execution-id>"
    text = due(HALF_PAST, [keyword, {keyword: f"\\{keyword}"}])
    assert "<" not in text
    assert received(text)[0].data == [keyword, {keyword: f"\\{keyword}"}]


def test_a_due_event_larger_than_a_schedule_takes_is_refused_and_not_claimed() -> None:
    # A quotation mark in the data has four characters in the schedule.
    for size, data in ((256_000 - 1024, "x"), (64_000, '"')):
        due(HALF_PAST, data * (size - 1500))
        with pytest.raises(
            TooLarge,
            match=r"^counted takes \d+ bytes in a schedule, which can have \d+: publish what",
        ):
            due(HALF_PAST, data * size)
    with pytest.raises(TooLarge, match=r"^counted has 245761 bytes of data, and is"):
        PLACE.fitting(replace(sized(INLINE + 1), wait=HALF_PAST), [], PK)


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
INBOUND = f"00-{TRACE}-{SPAN}-01"
VALID = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def outbound(event_id: str = "root.0", root: str = "root", **inbound: Any) -> dict[str, str]:
    return trace_context(inbound, event_id=event_id, root=root)


def parts(context: dict[str, str]) -> list[str]:
    assert VALID.fullmatch(context["traceparent"])
    return context["traceparent"].split("-")


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
def test_trace_flags_and_state_are_passed_on_and_nothing_else(flags: str) -> None:
    traceparent = f"00-{TRACE}-{SPAN}-{flags}"
    context = outbound(traceparent=traceparent, tracestate="shop=1", tenant="t")
    _, trace, _, kept = parts(context)
    assert (trace, kept) == (TRACE, flags)
    assert context.keys() == {"traceparent", "tracestate"}
    assert context["tracestate"] == "shop=1"
    assert context == outbound(traceparent=traceparent, tracestate="shop=1")


INVALID = {
    "missing": None,
    "empty": "",
    "uppercase trace": f"00-{TRACE.upper()}-{SPAN}-01",
    "uppercase span": f"00-{TRACE}-{SPAN.upper()}-01",
    "uppercase flags": f"00-{TRACE}-{SPAN}-0A",
    "no trace": f"00-{'0' * 32}-{SPAN}-01",
    "no span": f"00-{TRACE}-{'0' * 16}-01",
    "another version": f"01-{TRACE}-{SPAN}-01",
    "no version": f"ff-{TRACE}-{SPAN}-01",
    "too short": INBOUND[:-1],
    "too long": f"{INBOUND}-00",
    "white space": f" {INBOUND}",
    "line break": f"{INBOUND}\n",
    "digits of another script": INBOUND.replace("0", "٠"),
    "number": 7,
    "list": [INBOUND],
    "object": {"traceparent": INBOUND},
}


@pytest.mark.parametrize("traceparent", INVALID.values(), ids=INVALID)
def test_an_invalid_traceparent_is_replaced_and_its_state_dropped(traceparent: Any) -> None:
    context = outbound(traceparent=traceparent, tracestate="shop=1")
    assert context == outbound()
    _, trace, _, flags = parts(context)
    assert trace != TRACE
    assert flags == "00"


MEMBERS = ",".join(f"a{n}=1" for n in range(32))
DROPPED: list[Any] = [
    "shop=" + "x" * 508,
    f"{MEMBERS},b=1",
    "shop=é",
    "a=\n",
    None,
    7,
    ["shop=1"],
    {},
]


def test_a_tracestate_over_the_limits_of_w3c_is_dropped_and_the_event_goes_on() -> None:
    for state in ("shop=1", "shop=" + "x" * 507, MEMBERS):
        assert outbound(traceparent=INBOUND, tracestate=state)["tracestate"] == state
    for dropped in DROPPED:
        extensions = {"traceparent": INBOUND, "tracestate": dropped, "tenant": "t"}
        [event] = received(outbox("a", inbound=event_of(extensions=extensions)))
        assert event.extensions["traceparent"].startswith(f"00-{TRACE}-")
        assert event.extensions.keys().isdisjoint({"tracestate", "tenant"})


def test_the_events_of_a_record_without_an_inbound_trace_share_a_trace_of_its_own() -> None:
    one, sibling, stranger = outbound("root.0"), outbound("root.1"), outbound(root="another")
    assert parts(one)[1] == parts(sibling)[1] != parts(stranger)[1]
    assert parts(one)[2] != parts(sibling)[2]
