"""Error pattern: the part of an error text that is the same for each message that fails alike."""

import re

from once.ops.terminal.formatting import single_line

MOST_CHARACTERS = 160
NO_ERROR = "no error recorded"
"""Pattern of a letter without an error text."""

_VARIABLE = re.compile(r"[\w-]*\d[\w-]*(?:[.,:]\d[\w-]*)*")
"""A word with a digit: an id, a number, a time, an address in memory."""


def error_pattern(error: str | None) -> str:
    """Return the error's class and message with `…` in place of ids and numbers.

    Letters of one failure have the same pattern. It is one line of printable characters.

    Args:
        error: the text that a consumer has recorded; None if there is none.
    """
    first, _, _ = ((error or "").strip() or NO_ERROR).partition("\n")
    shown = _VARIABLE.sub("…", single_line(first[: 3 * MOST_CHARACTERS]))
    if len(shown) <= MOST_CHARACTERS:
        return shown
    return shown[: MOST_CHARACTERS - 1] + "…"
