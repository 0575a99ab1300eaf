"""What the documents name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("events/*.md")]
PATH = re.compile(r"`((?:once|functions|stacks|demo|emulator|tests|docs|events)/[\w./-]*)`")
LINK = re.compile(r"\]\((?!http)([\w./-]+)\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.name))
def test_every_path_in_a_document_exists(document: Path) -> None:
    text = document.read_text()
    named = [ROOT / path for path in PATH.findall(text)]
    named += [document.parent / path for path in LINK.findall(text)]
    example = ROOT / "functions" / "tickets"  # what a reader is told to make
    assert [str(path) for path in named if not path.exists() and path != example] == []
