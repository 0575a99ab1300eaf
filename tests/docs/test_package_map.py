from docs.tools import package_map
from docs.tools.marked_block import replaced


def test_the_page_shows_the_current_map() -> None:
    page = package_map.PAGE.read_text()
    assert page == replaced(page, package_map.BLOCK, package_map.content()), (
        "the package map is old: run `make redraw`"
    )
