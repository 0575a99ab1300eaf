"""The option `--table` and its companion `--items`."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from redelivery.subject import Table

TABLE_FORM = "name:key[:sort_key][,ttl=attribute][,compared|,not-compared]"
_TYPES = ("S", "N", "B")


def parse_table(text: str) -> Table:
    """Return a table. `S`, `N` or `B` after an attribute is its type: `days:day:N`.

    Raises:
        ValueError: the text does not have the form.
    """
    keys, *settings = text.split(",")
    name, *parts = keys.split(":")
    attributes = _attributes(parts)
    if not name or not attributes or len(attributes) > 2:
        raise ValueError(f"write {TABLE_FORM}, for example orders:order_id")
    options = dict(_setting(setting) for setting in settings)
    key, sort_key = [*attributes, ""][:2]
    return Table(name, key, sort_key, **options)


def _attributes(parts: list[str]) -> list[str]:
    """Return the key's attributes, each with its type if it has one: `["customer", "day:N"]`."""
    attributes: list[str] = []
    for part in parts:
        if part in _TYPES and attributes and ":" not in attributes[-1]:
            attributes[-1] += f":{part}"
        elif part:
            attributes.append(part)
        else:
            return []
    return attributes


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name == "ttl" and value:
        return ("ttl", value)
    if text in {"compared", "not-compared"}:
        return ("compared", text == "compared")
    raise ValueError(f"{text!r} is not ttl=attribute, compared or not-compared")


def parse_items(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Return a table's name and its items, read from a file: `stock=stock.json`.

    Raises:
        ValueError: the text does not have the form, or the file holds no list of objects.
    """
    name, _, path = text.partition("=")
    if not name or not path:
        raise ValueError("write table=file.json")
    try:
        # boto3 takes no floats.
        items = json.loads(Path(path).read_text("utf-8"), parse_float=Decimal)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"the file holds no JSON: {error}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("the file must hold a JSON list of objects, one for each item")
    return name, items
