"""A block of a page between two markers, which a script writes."""

from pathlib import Path


def replaced(page: str, name: str, content: str) -> str:
    """Return the page with the content of the block `name` replaced.

    Args:
        page: the page's text. It has `<!-- NAME: begin -->` and `<!-- NAME: end -->`, once each.
        name: of the block.
        content: lines of Markdown.

    Raises:
        ValueError: a marker is missing, stands twice, or the end comes first.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"the page needs {begin} and then {end}, once each")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content.strip()}\n{end}{after}"


def write(path: Path, name: str, content: str) -> None:
    """Replace a block of a page.

    Raises:
        ValueError: the page has not both markers.
    """
    path.write_text(replaced(path.read_text(), name, content))
