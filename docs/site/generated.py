"""Parts of pages that the site alone shows: markers in a page are replaced while it is built.

On GitHub the markers are invisible comments, and the page reads well without them.
"""

import re
from collections.abc import Callable
from pathlib import Path

from docs.site import command_reference, error_reference, package_reference, proofs_reference

ROOT = Path(__file__).parents[2]
_MARKER = re.compile(r"^<!-- generated: ([a-z ]+) -->$", re.MULTILINE)
_FILE = re.compile(r"^<!-- file: ([\w./-]+) -->$", re.MULTILINE)
_TABS = re.compile(r"^<!-- tabs -->$(.*?)^<!-- end of tabs -->$", re.MULTILINE | re.DOTALL)
_TAB = re.compile(r"^### ([^\n]+)$(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".tf": "terraform", ".yaml": "yaml", ".yml": "yaml"}


def filled(page: str) -> str:
    """Return the text of a page with its markers replaced.

    Raises:
        KeyError: no part has the marker's name.
        OSError: a file cannot be read.
    """
    page = _MARKER.sub(lambda marker: PARTS[marker[1]](), page)
    page = _FILE.sub(lambda marker: _code_of(ROOT / marker[1]), page)
    return _TABS.sub(lambda marker: _tabs(marker[1]), page)


def _code_of(file: Path) -> str:
    return f"```{_LANGUAGES[file.suffix]}\n{file.read_text().rstrip()}\n```"


def _tabs(sections: str) -> str:
    """Return a tab for each section; its heading is the tab's label."""
    tabs = (
        f":::{{tab-item}} {label}\n{text.strip()}\n:::" for label, text in _TAB.findall(sections)
    )
    return "\n".join(["::::{tab-set}", *tabs, "::::"])


def _once() -> str:
    from once.ops.__main__ import command_line

    return command_reference.reference(command_line(), "once")


def _redelivery() -> str:
    from redelivery.command import app

    return command_reference.reference(app, "redelivery")


PARTS: dict[str, Callable[[], str]] = {
    "commands of once": _once,
    "commands of redelivery": _redelivery,
    "once": lambda: package_reference.reference("once"),
    "once testing": lambda: package_reference.reference("once.testing"),
    "once cdk": lambda: package_reference.reference("once.cdk"),
    "exit codes": error_reference.exit_codes,
    "error tree": lambda: f"```text\n{error_reference.tree()}\n```",
    "errors": error_reference.reference,
    "reasons": error_reference.reasons,
    "proofs": proofs_reference.reference,
}
