"""Item size as DynamoDB counts it (AWS: "DynamoDB item sizes and formats"), and its limits."""

from collections.abc import Iterable, Mapping
from typing import Any

from once.errors import InvalidWrite, TooLarge
from once.names import Limits


def checked_size(entries: Iterable[Mapping[str, Any]], dedup_table: str) -> int:
    """Return the size of the entries of a transaction in bytes, as far as it is known.

    The size of a Put is that of its item. For an Update DynamoDB counts the resulting item, of
    which only the key and the new values are known here.

    Raises:
        TooLarge: an item or the transaction is over DynamoDB's limit.
        InvalidWrite: a name is not text, or a text is not valid Unicode.
    """
    total = 0
    for entry in entries:
        [(kind, request)] = entry.items()
        parts = (request.get(name, {}) for name in ("Item", "Key", "ExpressionAttributeValues"))
        item, *others = map(item_bytes, parts)
        total += item + sum(others)
        if kind == "Put" and item > Limits.ITEM_BYTES:
            if request["TableName"] == dedup_table:
                raise TooLarge(
                    f"the dedup record has {item} bytes, and DynamoDB takes {Limits.ITEM_BYTES}: "
                    "publish and answer less, or name the place where the data can be read"
                )
            raise TooLarge(
                f"an item for {request['TableName']} has {item} bytes, names and values together; "
                f"DynamoDB takes {Limits.ITEM_BYTES}"
            )
    if total > Limits.TRANSACTION_BYTES:
        raise TooLarge(
            f"the transaction has {total} bytes, items and values together; "
            f"DynamoDB takes {Limits.TRANSACTION_BYTES}"
        )
    return total


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
        raise InvalidWrite("a name or a text is no Unicode text, which DynamoDB asks for") from None


def _number_bytes(digits: str) -> int:
    return min(21, (len(digits) + 1) // 2 + 2)
