"""Mistakes in options, collected so that all of them are reported together."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class OptionMistakes(Exception):
    """Some options are wrong.

    Attributes:
        mistakes: one sentence each: the option, what is wrong, how to correct it.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class Mistakes:
    """Collects the mistakes of several options."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def parse(self, option: str, texts: Iterable[str], parse: Callable[[str], T]) -> list[T]:
        """Return the parsed texts of an option; a `ValueError` becomes a mistake."""
        parsed: list[T] = []
        for text in texts:
            try:
                parsed.append(parse(text))
            except ValueError as error:
                self.add(f"{option} {text!r}: {error}")
        return parsed

    def add(self, mistake: str) -> None:
        """Add a mistake."""
        self._found.append(mistake)

    def raise_if_any(self) -> None:
        """Raise all mistakes together.

        Raises:
            OptionMistakes: there are some.
        """
        if self._found:
            raise OptionMistakes(self._found)
