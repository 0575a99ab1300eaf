from pathlib import Path

import pytest

from docs.tools import package_map
from docs.tools.marked_block import replaced


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A library of two packages and two modules, and a folder that uses it."""
    for name, text in {
        "once/names.py": "import re",
        "once/consumer.py": "from once.batch.processor import Batch",
        "once/events/key.py": "from once.names import Record",
        "once/batch/processor.py": "def late():\n    from once.events.key import Key",
        "once/cdk/queues.py": "from once import names",
        "functions/shop/handler.py": "import once.consumer",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_page_shows_the_current_map() -> None:
    page = package_map.PAGE.read_text()
    assert page == replaced(page, package_map.BLOCK, package_map.content()), (
        "the package map is old: run `make redraw`"
    )


def test_imports_inside_functions_count(project: Path) -> None:
    assert package_map.library_graph(project) == {
        "base": set(),
        "once.events": {"base"},
        "once.batch": {"once.events"},
        "once.consumer": {"once.batch"},
    }
    assert package_map.base_modules(project) == ["names"]


def test_the_parts_of_the_library_are_folders_of_their_own(project: Path) -> None:
    graph = package_map.folder_graph(project)
    assert graph["functions"] == {"once"}
    assert graph["once.cdk"] == {"once"}
    assert graph["demo"] == set()


def test_an_indirect_import_has_no_arrow() -> None:
    graph = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert package_map.reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert package_map.mermaid(graph).splitlines()[-3:] == ["    a --> b", "    b --> c", "```"]


def test_a_page_without_both_markers_is_rejected() -> None:
    for page in (
        "no marker",
        "<!-- map: end --> <!-- map: begin -->",
        "<!-- map: begin --><!-- map: begin --><!-- map: end -->",
    ):
        with pytest.raises(ValueError, match="once each"):
            replaced(page, "map", "text")
