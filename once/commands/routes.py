"""Routes of commands over HTTP: the method and path of each, as `POST /orders/{order_id}/cancel`.

The function matches them, and synthesis checks them and gives them to the API.
"""

import re
from collections.abc import Iterator

METHODS = ("POST", "PUT", "PATCH", "DELETE")

_ROUTE = re.compile(r"([A-Z]+) /((?:[\w.~@:-]+|\{[a-z_]\w*\}|/)*)", re.A)
_FIELD = re.compile(r"\{(\w+)\}")
_VALUE = r"(?P<\1>[\\w.~@:-]+)"
"""A field in a path. Other characters would be encoded, which not every API decodes."""


def route_faults(route: str) -> Iterator[str]:
    found = _ROUTE.fullmatch(route)
    fields = _FIELD.findall(route)
    if not found or found[1] not in METHODS or len({*fields}) < len(fields):
        yield (
            f"{route!r} is no route; give a method ({', '.join(METHODS)}) and a path in which each "
            "field is named once, as 'POST /orders/{order_id}/cancel'"
        )


def route_pattern(route: str) -> tuple[str, re.Pattern[str]] | None:
    """Return a route's method, and the pattern of its paths; None if it is malformed."""
    found = None if [*route_faults(route)] else _ROUTE.fullmatch(route)
    return found and (found[1], re.compile(_FIELD.sub(_VALUE, found[2].strip("/")), re.A))
