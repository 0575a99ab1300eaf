"""What a function is told by its infrastructure, through environment variables.

The infrastructure writes `Settings(...).to_env()`, the function reads `Settings.from_env()`: one
class on both sides, so that a variable cannot be spelt in two ways. Standard library only.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from once.errors import SettingsError

TIME_MARGIN_MS = 5000
"""Kept back of a function's timeout: enough for a call under way to end, and for the answer."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """A business table: its physical name, and the attributes that make its primary key."""

    name: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a consumer's function needs to know about where it runs.

    `dedup_window_seconds` is how long a key is remembered; `max_body_bytes` the largest body that
    is read at all; `time_margin_ms` what is kept back of the function's timeout for the answer;
    `backoff_base_seconds` and `backoff_cap_seconds` bound the delay before a failed message is
    delivered again.
    """

    consumer: str
    event_types: tuple[str, ...]
    queue_url: str
    dead_letter_url: str
    dedup_table: str
    tables: Mapping[str, TableSettings]
    dedup_window_seconds: int
    max_receive_count: int = 5
    max_body_bytes: int = 256 * 1024
    time_margin_ms: int = TIME_MARGIN_MS
    backoff_base_seconds: int = 2
    backoff_cap_seconds: int = 900

    def to_env(self) -> dict[str, str]:
        """Return the environment variables that `from_env` reads back to an equal object."""
        return {_variable(f.name): _WRITE[f.name](getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read the settings of this function.

        Raises:
            SettingsError: one or more variables are missing or malformed; names them all.
        """
        values: dict[str, Any] = {}
        faults: list[str] = []
        for field in fields(cls):
            variable = _variable(field.name)
            if variable not in env:
                faults.append(f"{variable} is missing")
                continue
            try:
                values[field.name] = _READ[field.name](env[variable])
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                faults.append(f"{variable} is malformed ({error!r})")
        if faults:
            raise SettingsError(faults)
        return cls(**values)


def _variable(field: str) -> str:
    return f"ONCE_{field.upper()}"


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("it is empty")
    return value


def _whole(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(map(_text, values))


def _tables(value: str) -> dict[str, TableSettings]:
    return {
        logical: TableSettings(name=_text(table["name"]), key=_texts(table["key"]))
        for logical, table in json.loads(value).items()
    }


def _tables_text(tables: Mapping[str, TableSettings]) -> str:
    return json.dumps(
        {logical: {"name": t.name, "key": list(t.key)} for logical, t in tables.items()}
    )


_SPECIAL: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "event_types": (lambda value: _texts(json.loads(value)), json.dumps),
    "tables": (_tables, _tables_text),
}
_READ: dict[str, Callable[[str], Any]] = {
    f.name: _SPECIAL[f.name][0] if f.name in _SPECIAL else _whole if f.type is int else _text
    for f in fields(Settings)
}
_WRITE: dict[str, Callable[[Any], str]] = {
    f.name: _SPECIAL[f.name][1] if f.name in _SPECIAL else str for f in fields(Settings)
}
