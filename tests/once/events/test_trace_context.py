"""Trace context: the trace is carried on, and where none came in, it is derived and not drawn."""

import re
from typing import Any

import pytest

from once.events._trace_context import passed_on

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
INBOUND = f"00-{TRACE}-{SPAN}-01"
VALID = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def outbound(event_id: str = "root.0", root: str = "root", **inbound: Any) -> dict[str, str]:
    return passed_on(inbound, event_id=event_id, root=root)


def parts(context: dict[str, str]) -> list[str]:
    assert VALID.fullmatch(context["traceparent"])
    return context["traceparent"].split("-")


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
def test_the_trace_and_its_flags_are_kept(flags: str) -> None:
    _, trace, _, kept = parts(outbound(traceparent=f"00-{TRACE}-{SPAN}-{flags}"))
    assert (trace, kept) == (TRACE, flags)


def test_the_span_is_the_events_own() -> None:
    spans = {parts(outbound(f"root.{n}", traceparent=INBOUND))[2] for n in range(3)}
    assert len(spans) == 3
    assert SPAN not in spans


def test_the_state_of_a_trace_goes_with_it() -> None:
    assert outbound(traceparent=INBOUND, tracestate="shop=1")["tracestate"] == "shop=1"


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
def test_what_is_no_trace_begins_one_that_is_derived(traceparent: Any) -> None:
    context = outbound(traceparent=traceparent)
    assert context == outbound()
    _, trace, _, flags = parts(context)
    assert trace != TRACE
    assert flags == "00"


@pytest.mark.parametrize("traceparent", INVALID.values(), ids=INVALID)
def test_the_state_of_no_trace_is_left_behind(traceparent: Any) -> None:
    assert "tracestate" not in outbound(traceparent=traceparent, tracestate="shop=1")


@pytest.mark.parametrize("tracestate", [None, 7, ["shop=1"], {}])
def test_a_state_that_is_no_text_is_left_behind(tracestate: Any) -> None:
    assert "tracestate" not in outbound(traceparent=INBOUND, tracestate=tracestate)


@pytest.mark.parametrize("inbound", [{}, {"traceparent": INBOUND, "tracestate": "shop=1"}])
def test_a_replay_continues_the_very_same_trace(inbound: dict[str, str]) -> None:
    assert outbound(**inbound) == outbound(**inbound)


def test_the_events_of_one_record_begin_one_trace() -> None:
    one, other = outbound("root.0"), outbound("root.1")
    assert parts(one)[1] == parts(other)[1]
    assert parts(one)[2] != parts(other)[2]


def test_the_events_of_two_records_begin_two_traces() -> None:
    assert parts(outbound(root="a"))[1] != parts(outbound(root="b"))[1]


def test_no_other_attribute_is_passed_on() -> None:
    assert set(outbound(traceparent=INBOUND, tenant="t")) == {"traceparent"}
