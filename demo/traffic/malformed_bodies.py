"""Malformed bodies: events that no consumer can read, each kind with one fault."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_Event = Mapping[str, Any]
_DEPTH = 10_000


def malformed_bodies(count: int, event: _Event) -> Sequence[str]:
    """Return bodies made from a valid event, all different, the kinds in turn.

    Args:
        count: number of bodies.
        event: a valid `order.placed`; a number is added to its ids.
    """
    makers = list(KINDS.values())
    return [makers[n % len(makers)](_numbered(event, n + 1)) for n in range(count)]


def _numbered(event: _Event, number: int) -> _Event:
    data = {
        name: f"{event['data'][name]}-{number}" if name.endswith("_id") else event["data"][name]
        for name in event["data"]
    }
    data["lines"] = [{"sku": "none", "quantity": 1, "unit_price": 100}]
    return {**event, "id": f"{event['id']}-{number}", "subject": data["order_id"], "data": data}


def _not_json(event: _Event) -> str:
    return f"Order {event['id']} was placed."


def _cut_off(event: _Event) -> str:
    return json.dumps(event)[:-1]


def _key_twice(event: _Event) -> str:
    return json.dumps(event)[:-1] + ', "id": "another"}'


def _not_a_number(event: _Event) -> str:
    return _with_data(event, total=float("nan"))


def _lone_surrogate(event: _Event) -> str:
    return _with_data(event, customer_id="\ud800")


def _nested(event: _Event) -> str:
    body = _with_data(event, lines="NESTED")
    return body.replace('"NESTED"', "[" * _DEPTH + "]" * _DEPTH)


def _array(event: _Event) -> str:
    return json.dumps([event])


def _no_id(event: _Event) -> str:
    return json.dumps({name: value for name, value in event.items() if name != "id"})


def _null_id(event: _Event) -> str:
    return json.dumps({**event, "id": None})


def _number_as_id(event: _Event) -> str:
    return json.dumps({**event, "id": 7})


def _other_version(event: _Event) -> str:
    return json.dumps({**event, "specversion": "0.3"})


def _no_lines(event: _Event) -> str:
    return _with_data(event, lines=[])


def _quantity_as_text(event: _Event) -> str:
    return _with_data(event, lines=[{**event["data"]["lines"][0], "quantity": "one"}])


def _quantity_of_zero(event: _Event) -> str:
    return _with_data(event, lines=[{**event["data"]["lines"][0], "quantity": 0}])


def _data_as_text(event: _Event) -> str:
    return json.dumps({**event, "data": json.dumps(event["data"])})


def _with_data(event: _Event, **changes: Any) -> str:
    return json.dumps({**event, "data": {**event["data"], **changes}})


KINDS: Mapping[str, Callable[[_Event], str]] = {
    "not-json": _not_json,
    "no-id": _no_id,
    "array": _array,
    "quantity-as-text": _quantity_as_text,
    "nested": _nested,
    "key-twice": _key_twice,
    "null-id": _null_id,
    "other-version": _other_version,
    "no-lines": _no_lines,
    "not-a-number": _not_a_number,
    "number-as-id": _number_as_id,
    "quantity-of-zero": _quantity_of_zero,
    "lone-surrogate": _lone_surrogate,
    "data-as-text": _data_as_text,
    "cut-off": _cut_off,
}
"""The kinds by name, in the order in which they are taken: a few already show many reasons."""
