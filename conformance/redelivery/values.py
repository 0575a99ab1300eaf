"""Values of requests and items as JSON can hold them."""

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_TYPES = {"S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"}


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it.

    DynamoDB's typed form is decoded, sets are sorted, bytes become Base64.
    """
    if isinstance(value, Mapping):
        if len(value) == 1 and (kind := next(iter(value))) in _TYPES:
            return _typed(kind, value[kind])
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(entry) for entry in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if hasattr(value, "value") and type(value).__module__.startswith("boto3"):
        return plain(value.value)  # boto3's Binary
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _typed(kind: str, value: Any) -> Any:
    match kind:
        case "N":
            return plain(Decimal(str(value)))
        case "NS":
            return sorted(plain(Decimal(str(entry))) for entry in value)
        case "SS" | "BS":
            return sorted((plain(entry) for entry in value), key=str)
        case "NULL":
            return None
        case "M":
            return {str(name): plain(entry) for name, entry in value.items()}
        case _:
            return plain(value)
