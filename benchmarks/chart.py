"""Chart: the wall time of one message, as bars in SVG, for dark and light backgrounds."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from benchmarks.contenders import RAW
from benchmarks.goals import LIBRARY
from benchmarks.latency import MODEL
from benchmarks.report import number
from benchmarks.rows import Row, select

PANELS = (
    (5, "every answer after 5 ms"),
    (MODEL, "answers as slow as measured in Lambda in 2020"),
)
_WIDTH, _LABEL, _BAR, _STEP, _HEAD, _TOP = 760, 190, 480, 26, 34, 30
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .label { text-anchor: end }
  .library { fill: #1a7f37 }
  .raw { fill: #0969da }
  .other { fill: #8c959f }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .library { fill: #3fb950 }
    .raw { fill: #58a6ff }
  }
"""


def svg(rows: Sequence[Row]) -> str:
    """Return the chart of a run: one panel for each delay, ten records a batch, no faults."""
    panels = [(title, select(rows, delay_ms=delay)) for delay, title in PANELS]
    longest = max((row["vs_raw"] for _, own in panels for row in own), default=1.0)
    lines, y = [], _TOP
    for title, own in panels:
        lines.append(f'<text class="title" x="8" y="{y + 14}">{escape(title)}</text>')
        y += _HEAD
        for row in own:
            lines += _bar(row, y, longest)
            y += _STEP
    head = f"Wall time of one message, ten a batch; {RAW} = 1"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 8}" role="img">',
            f"<title>{escape(head)}</title>",
            f"<style>{_STYLE}</style>",
            f'<text class="title" x="8" y="20">{escape(head)}</text>',
            *lines,
            "</svg>\n",
        ]
    )


def _bar(row: Row, y: int, longest: float) -> Iterator[str]:
    name, ratio = row["contender"], row["vs_raw"]
    kind = "raw" if name == RAW else "library" if name in LIBRARY else "other"
    width = max(1.0, ratio / longest * _BAR)
    yield f'<text class="label" x="{_LABEL}" y="{y + 14}">{escape(name)}</text>'
    yield f'<rect class="{kind}" x="{_LABEL + 10}" y="{y}" width="{width:.1f}" height="18" rx="2"/>'
    yield f'<text x="{_LABEL + 16 + width:.1f}" y="{y + 14}">{number(ratio)}</text>'
