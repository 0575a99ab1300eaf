"""Trace context (W3C), as CloudEvents carries it: `traceparent` and `tracestate`."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

_MAX_STATE_CHARACTERS, _MAX_STATE_MEMBERS = 512, 32
"""Limits of W3C for `tracestate`: the characters to keep at least, and the members at most."""
_TRACEPARENT = re.compile(
    r"00-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})"
)


def passed_on(inbound: Mapping[str, Any], *, event_id: str, root: str) -> dict[str, str]:
    """Return the trace context of an event that an inbound event caused.

    The trace id is that of the inbound event, the span id is new. Without an inbound trace, the
    trace id is derived and not random, so that a replay has the same one. A `tracestate` over the
    limits of W3C, or with other characters than printable ASCII, is left out.

    Args:
        inbound: the extension attributes of the inbound event.
        event_id: the new event's id, from which the span id derives.
        root: the text from which a trace id derives if there is no inbound one.
    """
    found = _TRACEPARENT.fullmatch(_text(inbound, "traceparent"))
    trace, flags = (found["trace"], found["flags"]) if found else (_hex(root, 32), "00")
    context = {"traceparent": f"00-{trace}-{_hex(event_id, 16)}-{flags}"}
    state = _text(inbound, "tracestate")
    if found and state and _is_within_limits(state):
        context["tracestate"] = state
    return context


def _text(attributes: Mapping[str, Any], name: str) -> str:
    value = attributes.get(name)
    return value if isinstance(value, str) else ""


def _is_within_limits(state: str) -> bool:
    fits = len(state) <= _MAX_STATE_CHARACTERS and state.count(",") < _MAX_STATE_MEMBERS
    return fits and state.isascii() and state.isprintable()


def _hex(name: str, digits: int) -> str:
    return sha256(name.encode()).hexdigest()[:digits]
