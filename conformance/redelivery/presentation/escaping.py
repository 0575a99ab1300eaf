"""Escaping of texts that come from messages, handlers and services."""

from typing import IO, Any

from rich.console import Console
from rich.text import Text


def single_line(text: str) -> str:
    """Return a text with every unprintable character escaped, line breaks included."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escape_controls(text: str) -> str:
    """Return a text with every unprintable character escaped, except line breaks."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


class EscapingConsole(Console):
    """A console on which no text can control the terminal, and none is read as markup.

    A `rich.text.Text` is not escaped; use `single_line` for its content.

    Args:
        file: where it writes.
        options: as `rich.console.Console` takes them.
    """

    def __init__(self, file: IO[str], **options: Any) -> None:
        super().__init__(file=file, markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text as rich shows it."""
        return super().render_str(escape_controls(text), **options)
