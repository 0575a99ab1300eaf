"""Letter query: the filter of dead letters in an address or a form."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlencode

from once.ops.dead_letters.selection import LetterOptions

_NAMES = ("consumer", "reason", "error", "key", "older_than", "younger_than")


def letter_options(given: Mapping[str, Any], service: str) -> LetterOptions:
    """Return the options of the `dlq` commands that an address or a form has.

    Args:
        given: the parameters; an empty one is none.
        service: the name of the deployment.
    """
    texts = [str(given.get(name) or "").strip() or None for name in _NAMES]
    consumer, reason, error, key, older_than, younger_than = texts
    return LetterOptions(
        consumer=consumer,
        reason=reason,
        error=error,
        key=key,
        older_than=older_than,
        younger_than=younger_than,
        service=service,
    )


def query_values(options: LetterOptions) -> dict[str, str]:
    """Return the parameters of an address or a form that has these options."""
    return {name: value for name in _NAMES if (value := getattr(options, name))}


def query_text(values: Mapping[str, object]) -> str:
    """Return parameters as the end of an address, with its question mark."""
    return f"?{urlencode(values)}" if values else ""


def command_line(command: str, options: LetterOptions, *more: str) -> list[str]:
    """Return the words of a command with these options, which does the same on a terminal."""
    words = ["once", "dlq", command]
    for one in fields(LetterOptions):
        value = getattr(options, one.name)
        if value != one.default:
            words += [f"--{one.name.replace('_', '-')}", str(value)]
    return [*words, *more]
