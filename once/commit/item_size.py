"""Item size as DynamoDB counts it (AWS: "DynamoDB item sizes and formats")."""

from collections.abc import Iterable, Mapping
from typing import Any

from once.errors import InvalidWrite


def item_bytes(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the size in bytes of an item in DynamoDB's own JSON form.

    AWS documents numbers as approximate; they are counted at their longest, so that an item found
    to fit does fit.

    Raises:
        InvalidWrite: a name is not text, or a text is not valid Unicode.
    """
    return sum(_text_bytes(name) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    [(kind, content)] = value.items()
    match kind:
        case "S":
            return _text_bytes(content)
        case "B":
            return len(content)
        case "N":
            return _number_bytes(content)
        case "SS":
            return sum(map(_text_bytes, content))
        case "NS":
            return sum(map(_number_bytes, content))
        case "BS":
            return sum(map(len, content))
        case "L":
            return 3 + sum(1 + _value_bytes(member) for member in content)
        case "M":
            return 3 + sum(1 + _text_bytes(k) + _value_bytes(v) for k, v in content.items())
        case _:
            return 1


def _text_bytes(text: Any) -> int:
    try:
        return len(text.encode())
    except (AttributeError, UnicodeEncodeError):
        raise InvalidWrite(f"{text!r} is no Unicode text, which DynamoDB asks for") from None


def _number_bytes(digits: str) -> int:
    return min(21, (len(digits) + 1) // 2 + 2)


def entry_sizes(entries: Iterable[Mapping[str, Any]]) -> list[int]:
    """Return the known size of each entry of a transaction, in bytes.

    The size of a Put is that of its item. For an Update DynamoDB counts the resulting item, of
    which only the key and the new values are known here.
    """
    return [_entry_bytes(request) for entry in entries for request in entry.values()]


def _entry_bytes(request: Mapping[str, Any]) -> int:
    known = (request.get(part, {}) for part in ("Item", "Key", "ExpressionAttributeValues"))
    return sum(map(item_bytes, known))
