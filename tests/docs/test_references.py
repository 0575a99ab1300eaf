"""Paths, links and commands in the documents exist."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from once.ops.__main__ import app
from tests.architecture.imports import ROOT

FILES = ("*.md", "docs/**/*.md", "events/*.md", "conformance/*.md")
DOCUMENTS = [document for files in FILES for document in ROOT.glob(files)]
FOLDERS = "once|functions|stacks|demo|emulator|lab|proof|benchmarks|tests|docs|events|conformance"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
LINK = re.compile(r"\]\((?!http)([\w./-]+)(?:#[\w-]*)?\)")
FRAGMENT = re.compile(r"\]\((?!http)([\w./-]+\.md)?#([\w-]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
COMMAND = re.compile(
    r"`(?:once )?((?:status|dlq|trace|outbox|(?<=once )(?:send|local))(?: [^`]*)?)`"
)
EXAMPLE = {
    *(ROOT / "functions/tickets", ROOT / "functions/tickets/handler.py"),
    *(ROOT / "tests/functions/test_tickets.py", ROOT / "events/ticket-requested.json"),
}
"""The pages tell their reader to create these."""

PAGES = [page.read_text() for page in sorted(ROOT.glob("docs/**/*.md"))]
COMMANDS = {text for page in PAGES for text in COMMAND.findall(page)}


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    return {anchor(heading) for heading in HEADING.findall(document.read_text())}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.name))
def test_paths_and_links_of_a_document_exist(document: Path) -> None:
    text = document.read_text()
    named = [ROOT / path for path in PATH.findall(text)]
    named += [document.parent / path for path in LINK.findall(text)]
    assert [str(path) for path in named if not path.exists() and path not in EXAMPLE] == []
    missing = [
        f"{page}#{fragment}"
        for page, fragment in FRAGMENT.findall(text)
        if fragment not in anchors(document.parent / page if page else document)
    ]
    assert missing == []


def unknown_words(text: str) -> list[str]:
    """Return the words of a command that the command line does not have."""
    found: Any = get_command(app)
    words = text.split()
    while words and hasattr(found, "commands") and words[0] in found.commands:
        found = found.commands[words.pop(0)]
    options = {name for parameter in found.params for name in parameter.opts}
    unknown = [word for word in words if word.startswith("--") and word not in options]
    missing_command = [words[0]] if words and hasattr(found, "commands") else []
    return unknown + missing_command


@pytest.mark.parametrize("text", sorted(COMMANDS))
def test_a_command_exists_with_its_options(text: str) -> None:
    assert unknown_words(text) == []


def test_unknown_commands_are_detected() -> None:
    assert unknown_words("dlq lost") == ["lost"]
    assert unknown_words("dlq list --colour red") == ["--colour"]
    assert unknown_words("trace KEY --loud") == ["--loud"]
    assert len(COMMANDS) > 10
