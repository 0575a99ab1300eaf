"""Trace context: an inbound trace is continued; without one, a trace is derived from the record."""

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
def test_trace_flags_and_state_are_passed_on_and_nothing_else(flags: str) -> None:
    traceparent = f"00-{TRACE}-{SPAN}-{flags}"
    context = outbound(traceparent=traceparent, tracestate="shop=1", tenant="t")
    _, trace, _, kept = parts(context)
    assert (trace, kept) == (TRACE, flags)
    assert context.keys() == {"traceparent", "tracestate"}
    assert context["tracestate"] == "shop=1"
    assert context == outbound(traceparent=traceparent, tracestate="shop=1")


def test_each_event_has_a_span_of_its_own() -> None:
    spans = {parts(outbound(f"root.{n}", traceparent=INBOUND))[2] for n in range(3)}
    assert len(spans) == 3
    assert SPAN not in spans


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


@pytest.mark.parametrize("tracestate", [None, 7, ["shop=1"], {}])
def test_a_tracestate_of_another_type_is_dropped(tracestate: Any) -> None:
    assert "tracestate" not in outbound(traceparent=INBOUND, tracestate=tracestate)


def test_the_events_of_a_record_without_an_inbound_trace_share_a_trace_of_its_own() -> None:
    one, sibling, stranger = outbound("root.0"), outbound("root.1"), outbound(root="another")
    assert parts(one)[1] == parts(sibling)[1] != parts(stranger)[1]
    assert parts(one)[2] != parts(sibling)[2]
