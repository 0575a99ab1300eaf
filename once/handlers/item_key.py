"""Which item an action is about: DynamoDB takes one action an item in one request."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from once.errors import InvalidWrite

if TYPE_CHECKING:
    from once.settings import TableSettings

Place = tuple[str, tuple[tuple[str, Any], ...]]
"""A table's logical name, and the attributes of a primary key in it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A business table by its logical name. `Consumer.table` makes one."""

    name: str


def place_of(table: Table, settings: "TableSettings", key: Mapping[str, Any]) -> Place:
    """Return the place of the item with this key.

    Raises:
        InvalidWrite: these are not the attributes of the table's key, or not values for one.
    """
    if key.keys() != set(settings.key) or not all(map(_is_key_value, key.values())):
        names = ", ".join(settings.key)
        raise InvalidWrite(
            f"the key of {table.name} is {names}: text, a number or bytes, not empty"
        )
    return table.name, tuple(sorted(key.items()))


def _is_key_value(value: Any) -> bool:
    return isinstance(value, str | bytes | int | Decimal) and value not in ("", b"")
