"""Settings that travel as environment variables: one dataclass for writer and reader.

The infrastructure writes `to_env()`, the function reads `from_env()`: one class on both sides, so
that a variable cannot be spelt in two ways. Standard library only.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, Self

from once.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Environment:
    """Settings that travel as environment variables, one for each field."""

    def to_env(self) -> dict[str, str]:
        """Return the environment variables that `from_env` reads back to an equal object."""
        return {_variable(f.name): _codec(f)[1](getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read the settings of this function.

        Raises:
            SettingsError: one or more variables are missing or malformed; names them all.
        """
        values: dict[str, Any] = {}
        faults: list[str] = []
        for each in fields(cls):
            variable = _variable(each.name)
            if variable not in env:
                faults.append(f"{variable} is missing")
                continue
            try:
                values[each.name] = _codec(each)[0](env[variable])
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                faults.append(f"{variable} is malformed ({error!r})")
        if faults:
            raise SettingsError(faults)
        return cls(**values)


def _variable(field: str) -> str:
    return f"ONCE_{field.upper()}"


def text(value: str) -> str:
    """Return a text that is not blank; raises ValueError for another."""
    if not value.strip():
        raise ValueError("it is empty")
    return value


def _whole(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def _flag(value: str) -> bool:
    return {"true": True, "false": False}[value]


def _named(values: Mapping[str, Any]) -> dict[str, str]:
    return {text(name): text(value) for name, value in values.items()}


def texts(values: Any) -> tuple[str, ...]:
    """Return the texts of a JSON list; raises TypeError or ValueError for another value."""
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is no list")
    return tuple(map(text, values))


def _lists(value: str) -> dict[str, tuple[str, ...]]:
    return {text(name): texts(values) for name, values in json.loads(value).items()}


_CODECS: dict[Any, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    str: (text, str),
    str | None: (lambda value: value or None, lambda value: value or ""),
    int: (_whole, str),
    tuple[str, ...]: (lambda value: texts(json.loads(value)), json.dumps),
    bool: (_flag, lambda value: str(value).lower()),
    Mapping[str, str]: (lambda value: _named(json.loads(value)), json.dumps),
    Mapping[str, tuple[str, ...]]: (_lists, json.dumps),
}
"""Reader and writer of an environment variable, by the type of its field."""


def register_type(kind: Any, read: Callable[[str], Any], write: Callable[[Any], str]) -> None:
    """Let settings have fields of a further type.

    Args:
        kind: the type, as fields are annotated with it.
        read: returns the value of a text, or raises ValueError, TypeError or KeyError.
        write: returns the text of a value.
    """
    _CODECS[kind] = (read, write)


def _codec(of: "Field[Any]") -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    return _CODECS[of.type]
