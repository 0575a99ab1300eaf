"""The documentation site builds without a warning, and no link in it is dead."""

import re
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs.site import error_reference
from once.cdk import ConsumerProps, DeploymentConfig, WebhookProps
from once.errors import OnceError
from once.names import Reason
from once.ops.dead_letters.assessment import remedy
from tests.architecture.imports import ROOT


class Page(HTMLParser):
    """The anchors of a page, and the addresses that it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given[name] or "" for name in ("id", "name") if name in given}
        self.addresses |= {given[name] or "" for name in ("href", "src") if name in given}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    # Without the theme, whose tree of all pages on each page takes half of a build: a page counts
    # as linked if the text of another one leads to it.
    command += ["-D", "html_theme=basic", "-c", "docs/site", ".", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"make docs fails:\n{done.stderr}"
    return folder


def links(site: Path) -> tuple[set[Path], list[str]]:
    """Return the pages that another page of the site refers to, and the dead links."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    linked, dead = set[Path](), list[str]()
    for path, page in pages.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            linked |= {target} - {path}
            anchors = pages[target].anchors if target in pages else {""}
            fragment = unquote(parts.fragment)
            if not target.exists() or (target in pages and fragment and fragment not in anchors):
                dead.append(f"{path.relative_to(site)}: {address}")
    return linked, dead


def test_every_page_is_reached_by_a_link_and_no_link_is_dead(site: Path) -> None:
    sources = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("conformance/**/*.md"), ROOT / "README.md"]
    pages = {(site / each.relative_to(ROOT)).with_suffix(".html") for each in sources}
    linked, dead = links(site)
    assert pages - linked == set()
    assert dead == []


def test_each_decision_that_is_named_exists_and_is_listed() -> None:
    folder = ROOT / "docs" / "adr"
    records = {path.name[:4] for path in folder.glob("0*.md")}
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    code = (file for name in ("once", "proof", "stacks") for file in ROOT.glob(f"{name}/**/*.py"))
    text = "\n".join(file.read_text() for file in (*pages, *code))
    assert set(re.findall(r"\b(?:ADRs?\s+|docs/adr/)(\d{4})\b", text)) <= records
    listed = re.findall(r"^\| \[(\d{4})\]", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(records)


@pytest.mark.parametrize("kind", [ConsumerProps, WebhookProps, DeploymentConfig])
def test_the_page_of_the_constructs_describes_each_property(site: Path, kind: type) -> None:
    page = (site / "docs" / "reference" / "once-cdk.html").read_text()
    for each in fields(kind):
        described = f'id="once.cdk.{kind.__name__}.{each.name}"' in page
        passed = (
            "setting" in each.metadata and f'<span class="pre">{each.name}</span></code>, ' in page
        )
        assert described or passed, f"write the meaning of {each.name} below the field"


def test_every_error_has_a_meaning_and_a_remedy() -> None:
    for kind in error_reference.errors():
        if kind is not OnceError:
            assert error_reference.meaning(kind), kind
            assert error_reference.remedies(kind), f"add `Remedy: …` to the docstring of {kind}"


def test_the_error_page_has_the_remedies_that_commands_print() -> None:
    page = error_reference.reasons()
    assert str(remedy(Reason.UNKNOWN_TYPE)) in page
    assert str(remedy(None)) in page
    assert page.count("\n") == len(Reason) + 2
