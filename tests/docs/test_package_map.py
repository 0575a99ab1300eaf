from pathlib import Path

import pytest

from docs.tools import package_map
from docs.tools.marked_block import replaced


def test_the_page_shows_the_current_map() -> None:
    page = package_map.PAGE.read_text()
    assert page == replaced(page, package_map.BLOCK, package_map.content()), (
        "the package map is old: run `make redraw`"
    )


def test_imports_inside_functions_count(tmp_path: Path) -> None:
    for name, text in {
        "names": "import re",
        "events/key": "from once.names import Record",
        "batch/processor": "def late():\n    from once.events.key import Key",
    }.items():
        path = tmp_path / "once" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert package_map.library_graph(tmp_path) == {
        "base": set(),
        "once.events": {"base"},
        "once.batch": {"once.events"},
    }


def test_a_page_without_both_markers_is_rejected() -> None:
    for page in (
        "no marker",
        "<!-- map: end --> <!-- map: begin -->",
        "<!-- map: begin --><!-- map: begin --><!-- map: end -->",
    ):
        with pytest.raises(ValueError, match="once each"):
            replaced(page, "map", "text")
