"""Trace context (W3C), as CloudEvents carries it: `traceparent` and `tracestate`."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

_TRACEPARENT = re.compile(
    r"00-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})"
)


def passed_on(inbound: Mapping[str, Any], *, event_id: str, root: str) -> dict[str, str]:
    """Return the trace context of an event that an inbound one gave rise to.

    The trace stays, the span is the event's own. Where the inbound event has no trace, one begins
    that is derived and not drawn, so that a replay continues the very same trace.

    Args:
        inbound: the extension attributes of the inbound event.
        event_id: names the span.
        root: names the trace where none came in.
    """
    found = _TRACEPARENT.fullmatch(str(inbound.get("traceparent")))
    trace, flags = (found["trace"], found["flags"]) if found else (_hex(root, 32), "00")
    context = {"traceparent": f"00-{trace}-{_hex(event_id, 16)}-{flags}"}
    if found and isinstance(state := inbound.get("tracestate"), str):
        context["tracestate"] = state
    return context


def _hex(name: str, digits: int) -> str:
    return sha256(name.encode()).hexdigest()[:digits]
