"""Generated parts of pages: a marker in a page is replaced while the site is built."""

import re
from collections.abc import Callable

from docs.site import command_reference, error_reference, package_reference, settings_reference

_MARKER = re.compile(r"^<!-- generated: ([a-z ]+) -->$", re.MULTILINE)


def filled(page: str) -> str:
    """Return the text of a page with its markers replaced.

    Raises:
        KeyError: no part has the marker's name.
    """
    return _MARKER.sub(lambda marker: PARTS[marker[1]](), page)


def _once() -> str:
    from once.ops.__main__ import command_line

    return command_reference.reference(command_line(), "once")


def _redelivery() -> str:
    from redelivery.command import app

    return command_reference.reference(app, "redelivery")


PARTS: dict[str, Callable[[], str]] = {
    "decisions": lambda: "```{toctree}\n:glob:\n:hidden:\n\n0*\n```",
    "commands of once": _once,
    "commands of redelivery": _redelivery,
    "once": lambda: package_reference.reference("once"),
    "once testing": lambda: package_reference.reference("once.testing"),
    "once cdk": lambda: package_reference.reference("once.cdk"),
    "exit codes": error_reference.exit_codes,
    "error tree": lambda: f"```text\n{error_reference.tree()}\n```",
    "errors": error_reference.reference,
    "reasons": error_reference.reasons,
    "settings": settings_reference.reference,
}
