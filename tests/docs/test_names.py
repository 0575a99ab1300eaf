"""What the documents name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("events/*.md")]
FOLDERS = "once|functions|stacks|demo|emulator|proof|benchmarks|tests|docs|events"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
LINK = re.compile(r"\]\((?!http)([\w./-]+)(?:#[\w-]*)?\)")
FRAGMENT = re.compile(r"\]\((?!http)([\w./-]+\.md)?#([\w-]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.name))
def test_every_path_in_a_document_exists(document: Path) -> None:
    text = document.read_text()
    named = [ROOT / path for path in PATH.findall(text)]
    named += [document.parent / path for path in LINK.findall(text)]
    example = ROOT / "functions" / "tickets"  # what a reader is told to make
    assert [str(path) for path in named if not path.exists() and path != example] == []


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.name))
def test_every_fragment_of_a_link_is_a_heading(document: Path) -> None:
    lost = [
        f"{page}#{fragment}"
        for page, fragment in FRAGMENT.findall(document.read_text())
        if fragment not in anchors(document.parent / page if page else document)
    ]
    assert lost == []


def anchors(document: Path) -> set[str]:
    return {anchor(heading) for heading in HEADING.findall(document.read_text())}
