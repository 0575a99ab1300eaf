"""The matrix as tables of a terminal."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from lab.matrix.cells import Cell, Verdict
from redelivery import Fault, Kind

NUMBERED = {Kind.LOST, Kind.DOUBLED}
"""The kinds whose number is shown; the others are shown by name."""

_FAULT_WIDTH = max(map(len, Fault))
_CELL_WIDTH = max(len(word) for kind in Kind for word in kind.split())
_BORDER = 3

Cells = Mapping[str, Mapping[Fault, Cell]]
"""The cells by approach and fault."""


def matrix(cells: Cells, faults: Sequence[Fault], width: int) -> Group:
    """Return the matrix, with a row for each fault, and the reasons of what was not run.

    Args:
        cells: the approaches in the order of the columns.
        faults: the faults in the order of the rows.
        width: of the terminal, in characters. Columns that do not fit follow in another table.
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
        table.add_column(_header(name), min_width=_CELL_WIDTH)
    for fault in faults:
        table.add_row(fault, *(cell_text(cells[name].get(fault)) for name in names))
    return table


def _header(name: str) -> str:
    return name if len(name) <= _CELL_WIDTH else name.replace("_", "_\n", 1)


def cell_text(cell: Cell | None) -> Text:
    """Return what a cell shows: `✓`, the differences, or a dash if it was not run."""
    match cell:
        case Cell(verdict=Verdict.PASSED):
            return Text("✓", style="green")
        case Cell(verdict=Verdict.FAILED, counts=counts):
            shown = (_difference(kind, count) for kind, count in counts.items())
            return Text("\n".join(shown), style="red")
        case _:
            return Text("–", style="dim")


def _difference(kind: Kind, count: int) -> str:
    return f"{count} {kind}" if kind in NUMBERED else kind.replace(" ", "\n")


def _reasons(cells: Cells) -> Iterator[Text]:
    """Yield a line for each reason why a fault was not run, with its approaches."""
    found: dict[tuple[Fault, str], list[str]] = defaultdict(list)
    for name, row in cells.items():
        for fault, cell in row.items():
            if cell.verdict is Verdict.NOT_RUN:
                found[fault, cell.reason].append(name)
    for (fault, reason), names in sorted(
        found.items(), key=lambda item: list(Fault).index(item[0][0])
    ):
        whom = "all" if len(names) == len(cells) else ", ".join(names)
        yield Text(f"– {fault} ({whom}): {reason}", style="dim")
