"""The measured table of docs/lab.md: `python -m lab.load.page` writes it from the last report."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.load.report import FILE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lab.md"
BEGIN, END = "<!-- load: begin -->", "<!-- load: end -->"

_COUNTS = ("doubled", "lost", "dead_letters")
_TITLES = (
    *("approach", "doubled", "lost", "dead letters", "handler / `none`"),
    *("kills", "doubled", "lost", "dead letters"),
)


def rewritten(page: str, found: Mapping[str, Any]) -> str:
    """Return the page with the table of a report.

    Raises:
        ValueError: the page does not have both markers once.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"docs/lab.md needs {BEGIN} and {END}, once each, for its table")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, *_lines(found), END + after])


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"{found['messages']:,} orders, {found['duplicates']} of them sent twice; the last four"
    yield "columns are of a second run, in which function processes were killed:"
    yield ""
    yield f"| {' | '.join(_TITLES)} |"
    yield f"|---|{'--:|' * (len(_TITLES) - 1)}"
    for name, row in found["approaches"].items():
        plain, killed = row["without_kills"], row["with_kills"]
        cells = [*_counts(plain), f"{row['ratio']:.2f}", str(killed["kills"]), *_counts(killed)]
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield from (f"\n`{name}` was not run: {why}" for name, why in found["not_run"].items())


def _counts(figures: Mapping[str, Any]) -> list[str]:
    return [str(figures[name]) for name in _COUNTS]


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), json.loads(FILE.read_text())))
