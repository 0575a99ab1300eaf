"""Pictures of a recorded run for the pages: `python -m demo.pictures`.

Draws docs/img/demo.svg from docs/img/demo.json, which is a run's `reports/demo.json`, and
docs/img/trace.svg from docs/img/trace.json, which is the answer of `once trace ORDER_ID --json`.
"""

import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo.report import orders_table

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "img"
WIDTH = 92

_STYLES = {
    "committed": "green",
    "due": "cyan",
    "duplicate": "dim",
    "refused": "yellow",
    "will be retried": "yellow",
}
_FACTS = ("error", "published", "effect", "provider_key")
_HASH = re.compile(r"[0-9a-f]{64}")
# A picture on a page may load nothing: a viewer shows the text in a font of its own.
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def trace_table(trace: Mapping[str, Any]) -> Table:
    """Return the moments of `once trace --json` as a table, with shortened hashes."""
    table = Table("time (UTC)", "consumer", "event", "result", title=f"Trace of {trace['key']}")
    for moment in trace["moments"]:
        time = str(moment["time"]).partition("T")[2].partition("+")[0]
        table.add_row(time, moment["consumer"], moment["event_type"], _result(moment))
    return table


def _result(moment: Mapping[str, Any]) -> Text:
    text = Text(moment["what"], style=_STYLES.get(moment["what"], "red"))
    for name in _FACTS:
        if name in moment:
            text.append(f"\n{name.replace('_', ' ')}: {_short(moment[name])}", style="default")
    return text


def _short(fact: str | Iterable[str]) -> str:
    shown = fact if isinstance(fact, str) else ", ".join(fact)
    return _HASH.sub(lambda found: f"{found[0][:8]}…", shown)


def svg(table: Table, title: str) -> str:
    """Return a table as an SVG picture of a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(table)
    return _FONTS.sub("", console.export_svg(title=title, unique_id="once")) + "\n"


def pictures(folder: Path = FOLDER) -> dict[str, str]:
    """Return each picture by its file's name, from the folder's `demo.json` and `trace.json`."""
    demo, trace = (json.loads((folder / f"{name}.json").read_text()) for name in ("demo", "trace"))
    return {
        "demo.svg": svg(orders_table(demo), "make demo"),
        "trace.svg": svg(trace_table(trace), "once trace"),
    }


def main() -> None:
    """Write the pictures beside their data."""
    for name, picture in pictures().items():
        (FOLDER / name).write_text(picture)


if __name__ == "__main__":
    main()
