"""Draws the dashboard of a template, with the figures of a recorded run: docs/img/dashboard.svg.

The position of each widget, its metrics, expressions and thresholds are those of the definition.
What CloudWatch adds (its controls, its fonts) is left out.
"""

import json
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from docs.tools.alarm_states import expression_of, figures_in, named, period_of, states, value
from docs.tools.recorded_metrics import FASTER, Recording

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "docs" / "img" / "outage.json"
PICTURE = RECORDED.with_name("dashboard.svg")
SHOWN = "payments"
"""The consumer that is chosen in the picture."""

_COLUMN, _UNIT, _GAP = 52, 36, 3
_COLOURS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b"),
    *("#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#393b79"),
)
_RED, _GREEN, _GREY = "#d13212", "#1d8102", "#687078"
_AXIS, _LEGEND_LINE = 34, 12
_PERIOD = 300
_EACH_ALARM = 17

Json = dict[str, Any]


class _Line(NamedTuple):
    """Figures of a line in each period, and what the definition says of it."""

    figures: list[float | None]
    options: Json

    @property
    def side(self) -> str:
        return str(self.options.get("yAxis", "left"))


def body_of(template: Json, chosen: str) -> Json:
    """Return what a dashboard shows, with names in place of references and of the variable."""
    [dashboard] = (
        each["Properties"]["DashboardBody"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::CloudWatch::Dashboard"
    )
    parts = dashboard["Fn::Join"][1]
    text = "".join(each if isinstance(each, str) else named(template, each) for each in parts)
    for variable in json.loads(text).get("variables", ()):
        text = text.replace(variable["pattern"], chosen)
    body: Json = json.loads(text)
    return body


def picture(template: Json, recording: Recording, chosen: str = SHOWN) -> str:
    """Return the dashboard as an SVG picture."""
    widgets = body_of(template, chosen)["widgets"]
    height = max(each["y"] + each["height"] for each in widgets) * _UNIT
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * _COLUMN} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="10">',
        f'<rect width="{24 * _COLUMN}" height="{height}" fill="#f2f3f3"/>',
    ]
    for widget in widgets:
        x, y = widget["x"] * _COLUMN + _GAP, widget["y"] * _UNIT + _GAP
        wide, high = widget["width"] * _COLUMN - 2 * _GAP, widget["height"] * _UNIT - 2 * _GAP
        shown = widget["properties"]
        drawn += [
            f'<g transform="translate({x} {y})">',
            f'<rect width="{wide}" height="{high}" rx="3" fill="#fff" stroke="#d5dbdb"/>',
            _text(8, 15, shown["title"], weight="bold", size=11),
        ]
        if widget["type"] == "alarm":
            drawn += _alarms(template, recording, shown["alarms"], wide)
        else:
            drawn += _graph(recording, shown, wide, high)
        drawn.append("</g>")
    return "\n".join([*drawn, "</svg>", ""])


def _alarms(template: Json, recording: Recording, names: list[str], wide: int) -> Iterator[str]:
    """Draw the state of each alarm at the end of the run; those in ALARM come first."""
    found = []
    for each in template["Resources"].values():
        path = "/".join(each.get("Metadata", {}).get("aws:cdk:path", "").split("/")[1:-1])
        if each["Type"] == "AWS::CloudWatch::Alarm" and path in names:
            alarm = each["Properties"]
            # The recording has nothing of the mapping of the relay, whose alarm is on silence.
            known = alarm["TreatMissingData"] != "breaching"
            figures = figures_in(recording, template, alarm)
            begin = 12 * 3600 // period_of(alarm)
            found.append((known and states(alarm, figures, begin)[-1] == "A", alarm["AlarmName"]))
    rows = -(-len(found) // 2)
    for number, (on, name) in enumerate(sorted(found, key=lambda each: not each[0])):
        x, y = 8 + number // rows * (wide // 2 - 12), 22 + number % rows * (_EACH_ALARM - 4)
        colour = _RED if on else _GREEN
        yield f'<rect x="{x}" y="{y}" width="9" height="9" rx="2" fill="{colour}"/>'
        yield _text(x + 13, y + 8, name, size=8, weight="bold" if on else "normal")


def _graph(recording: Recording, shown: Json, wide: int, high: int) -> Iterator[str]:
    lines = [*_lines(recording, shown["metrics"])]
    thresholds = shown.get("annotations", {}).get("horizontal", [])
    columns = max(1, (wide - 16) // 105)
    legend = -(-len(lines) // columns) * _LEGEND_LINE
    left, right, top, bottom = _AXIS, wide - _AXIS, 26, high - legend - 18
    seconds = recording.seconds * FASTER
    sides = {line.side for line in lines}
    highest = {
        side: _round_up(
            max((f for line in lines if line.side == side for f in line.figures if f), default=0)
        )
        for side in sides
    }
    for side, x, anchor in (("left", left - 4, "end"), ("right", right + 4, "start")):
        if side in sides:
            yield _text(x, top + 4, _short(highest[side]), anchor=anchor, size=9, fill=_GREY)
            yield _text(x, bottom + 3, "0", anchor=anchor, size=9, fill=_GREY)
    for y in (top, (top + bottom) / 2, bottom):
        yield f'<path d="M{left} {y:.1f}H{right}" stroke="#eaeded"/>'
    for hour in range(seconds // 3600 + 1):
        at = left + (right - left) * hour * 3600 // seconds
        yield _text(at, bottom + 13, f"{hour} h", anchor="middle", size=9, fill=_GREY)
    if all(f is None for line in lines for f in line.figures):
        middle = (left + right) // 2, (top + bottom) // 2
        yield _text(*middle, "no data in the recording", anchor="middle", fill=_GREY)
    for threshold in thresholds:
        label, figure = threshold["label"], threshold["value"]
        level = bottom - (bottom - top) * min(1.0, figure / highest["left"])
        above = "" if figure <= highest["left"] else f", above: {_short(figure)}"
        yield f'<path d="M{left} {level:.1f}H{right}" stroke="{_RED}" stroke-dasharray="4 3"/>'
        beside = 10 if level < top + 10 else -3
        yield _text(
            right, round(level) + beside, f"{label}{above}", anchor="end", size=9, fill=_RED
        )
    for number, line in enumerate(lines):
        colour = line.options.get("color", _COLOURS[number % len(_COLOURS)])
        period = line.options.get("period", _PERIOD)
        points = [
            (
                left + (right - left) * min(1, (n + 0.5) * period / seconds),
                bottom - (bottom - top) * figure / highest[line.side],
            )
            for n, figure in enumerate(line.figures)
            if figure is not None
        ]
        path = " ".join(f"{along:.1f},{up:.1f}" for along, up in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        for dot in points if len(points) == 1 else ():
            yield f'<circle cx="{dot[0]:.1f}" cy="{dot[1]:.1f}" r="2" fill="{colour}"/>'
        x, y = 8 + number % columns * 105, bottom + 26 + number // columns * _LEGEND_LINE
        yield f'<rect x="{x}" y="{y - 7}" width="8" height="8" fill="{colour}"/>'
        right_axis = " (right)" if line.side == "right" else ""
        yield _text(x + 11, y, f"{line.options['label']}{right_axis}", size=8)


def _lines(recording: Recording, metrics: list[list[Any]]) -> Iterator[_Line]:
    """Yield the lines of a graph."""
    found: dict[int | str, list[float | None]] = {}
    for number, (*metric, options) in enumerate(metrics):
        if metric:
            _, name, *dimensions = metric
            owner = dimensions[1] if dimensions else ""
            period, stat = options.get("period", _PERIOD), options.get("stat", "Average")
            figures = recording.figures(owner, name, stat, period)
            found[number] = found[options.get("id", "")] = figures
    for number, (*metric, options) in enumerate(metrics):
        if not metric:
            node = expression_of({"Metrics": [{"Expression": options["expression"]}]})
            known = [
                {str(key): f for key, figures in found.items() if (f := figures[n]) is not None}
                for n in range(recording.periods(_PERIOD))
            ]
            found[number] = [value(node, known, n) for n in range(len(known))]
        if options.get("visible", True):
            yield _Line(found[number], options)


def _round_up(figure: float) -> float:
    """Return the next figure with one digit; at least 1."""
    steps = (step * 10.0**n for n in range(12) for step in (1, 2, 5))
    return next(step for step in steps if figure <= step)


def _short(figure: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if figure >= size:
            return f"{figure / size:g}{unit}"
    return f"{figure:g}"


def _text(
    x: int,
    y: int,
    text: str,
    *,
    size: int = 10,
    anchor: str = "start",
    weight: str = "normal",
    fill: str = "#16191f",
) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def main(folder: str = "cdk.out") -> None:
    """Draw the picture anew from the template that `cdk synth` has written."""
    template = json.loads((ROOT / folder / "once-service.template.json").read_text())
    PICTURE.write_text(picture(template, Recording.read(RECORDED)))


if __name__ == "__main__":
    main(*sys.argv[1:])
