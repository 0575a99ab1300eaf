"""The matrix of approaches and faults on a terminal, and as a picture for the pages.

`python -m lab.matrix` draws `img/lab.svg` anew from `img/lab.json`, the report of a full run.
`python -m lab --picture` writes both.
"""

import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from lab.checks import NEVER_FIRED, Cell, write
from redelivery import Fault, Kind, Report
from redelivery.presentation import print_scenario

FOLDER = Path(__file__).resolve().parent / "img"
_NUMBERED = {Kind.LOST, Kind.DOUBLED}
"""The kinds whose number is shown; the others are shown by name."""

_FAULT_WIDTH = max(map(len, Fault))
_CELL_WIDTH = max(len(word) for kind in Kind for word in kind.split())
_BORDER = 3
_PICTURE_WIDTH = 134

# A picture on a page may load nothing: a viewer shows the text in a font of its own.
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)

Cells = Mapping[str, Mapping[str, Cell]]
"""The cells by approach and fault, as in a report."""


def matrix(cells: Cells, faults: Sequence[Fault], width: int) -> Group:
    """Return the matrix, with a row for each fault, and the reasons of what was not run.

    Columns that do not fit a terminal of this width follow in another table.
    """
    columns = max(1, (width - _FAULT_WIDTH - _BORDER - 1) // (_CELL_WIDTH + _BORDER))
    names = list(cells)
    tables = -(-len(names) // columns)
    columns = -(-len(names) // tables) if tables else 1  # tables of about equal width
    parts = [names[start : start + columns] for start in range(0, len(names), columns)]
    return Group(*(_table(cells, faults, part) for part in parts), *_reasons(cells))


def _table(cells: Cells, faults: Sequence[Fault], names: Sequence[str]) -> Table:
    table = Table("fault")
    for name in names:
        header = name if len(name) <= _CELL_WIDTH else name.replace("_", "_\n", 1)
        table.add_column(header, min_width=_CELL_WIDTH)
    for fault in faults:
        table.add_row(fault, *(cell_text(cells[name].get(fault)) for name in names))
    return table


def cell_text(cell: Cell | None) -> Text:
    """Return what a cell shows: `✓`, the differences, or a dash if it was not run."""
    if cell is None or cell["verdict"] == "not-run":
        return Text("–", style="dim")
    shown = [
        f"{count} {kind}" if kind in _NUMBERED else kind.replace(" ", "\n")
        for kind, count in cell["counts"].items()
    ]
    return Text("\n".join(shown), style="red") if shown else Text("✓", style="green")


def _reasons(cells: Cells) -> Iterator[Text]:
    """Yield a line for each reason why a fault was not run, with its approaches."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, row in cells.items():
        for fault, cell in row.items():
            if cell["reason"]:
                found[fault, cell["reason"]].append(name)
    order = list(Fault)
    for (fault, reason), names in sorted(found.items(), key=lambda e: order.index(Fault(e[0][0]))):
        whom = "all" if len(names) == len(cells) else ", ".join(names)
        yield Text(f"– {fault} ({whom}): {reason}", style="dim")


def story(approach: str, fault: Fault, found: Report, console: Console) -> None:
    """Print a cell: its smallest failing scenario, or the longest one that passed."""
    fired = [result for result in found.of(fault) if result.fired]
    failures = [result for result in found.failures if result.fault is fault]
    if not fired:
        told = f"not run: {found.not_run.get(fault, NEVER_FIRED)}"
    elif failures:
        told = f"{len(failures)} of {len(fired)} scenarios fail"
    else:
        told = f"all {len(fired)} scenarios end as without a fault"
    console.print(f"{approach}, {fault}: {told}", soft_wrap=True)
    if fired:
        longest = max(fired, key=lambda result: len(result.course))
        print_scenario(failures[0] if failures else longest, console)


def write_picture(content: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Write a report, and its matrix as an SVG picture of a terminal, for the pages."""
    console = Console(record=True, width=_PICTURE_WIDTH, file=io.StringIO(), force_terminal=True)
    faults = [Fault(fault) for fault in content["faults"]]
    console.print(matrix(content["cells"], faults, _PICTURE_WIDTH))
    drawn = _FONTS.sub("", console.export_svg(title="make lab", unique_id="lab"))
    write(content, folder / "lab.json")
    (folder / "lab.svg").write_text(drawn + "\n")


if __name__ == "__main__":
    write_picture(json.loads((FOLDER / "lab.json").read_text()))
