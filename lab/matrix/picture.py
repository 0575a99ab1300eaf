"""Picture of the matrix for the pages: `python -m lab.matrix.picture`.

Draws docs/img/lab.svg from docs/img/lab.json, which is the report of a full run. `python -m lab
--picture` writes both.
"""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.matrix import report
from lab.matrix.table import matrix
from redelivery import Fault

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "img"
WIDTH = 134

# A picture on a page may load nothing: a viewer shows the text in a font of its own.
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def svg(content: Mapping[str, Any]) -> str:
    """Return the matrix of a report as an SVG picture of a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    faults = [Fault(fault) for fault in content["faults"]]
    console.print(matrix(report.cells_in(content), faults, WIDTH))
    return _FONTS.sub("", console.export_svg(title="make lab", unique_id="lab")) + "\n"


def write(content: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Write a report and its picture for the pages."""
    report.write(content, folder / "lab.json")
    (folder / "lab.svg").write_text(svg(content))


def main() -> None:
    """Draw the picture of the stored report anew."""
    write(json.loads((FOLDER / "lab.json").read_text()))


if __name__ == "__main__":
    main()
