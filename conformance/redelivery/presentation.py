"""A report as text for people.

Texts that come from messages, handlers and services are escaped: none controls the terminal.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from redelivery.faults import MEANING
from redelivery.report import Report, Result, Row, Verdict, count, kinds_text

Repeat = Callable[[str], str]
"""Returns the command or call that repeats a scenario, given its name."""

_WIDTH = 80
_LONGEST_MESSAGE = 400
_LONGEST_REPEATED = 12
_PROCESS = re.compile(r"\bprocess \d+")
_STYLES = {Verdict.PASSED: "bold green", Verdict.FAILED: "bold red", Verdict.NONE: "bold yellow"}


def single_line(text: str) -> str:
    """Return a text with every unprintable character escaped, line breaks included."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def escape_controls(text: str) -> str:
    """Return a text with every unprintable character escaped, except line breaks."""
    return "\n".join(map(single_line, text.split("\n")))


class EscapingConsole(Console):
    """A console on which no text can control the terminal, and none is read as markup.

    A `rich.text.Text` is not escaped; use `single_line` for its content.
    """

    def __init__(self, file: IO[str], **options: Any) -> None:
        super().__init__(file=file, markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return the text as rich shows it."""
        return super().render_str(escape_controls(text), **options)


def print_report(
    report: Report, console: Console, *, repeat: Repeat, every_failure: bool = False
) -> None:
    """Print a report; its last line is the verdict.

    With `every_failure`, each failing scenario is told instead of the shortest for each kind and
    place.
    """
    scenarios = count(len(report.results), "scenario")
    console.print(
        f"{report.title}: {scenarios} in {report.seconds:.1f} s, seed {report.seed}{report.remark}"
    )
    console.print()
    console.print(_table(report.rows))
    _print_heading(console, "Messages")
    for label, told in report.messages.items():
        end = "…" * (len(told) > _LONGEST_MESSAGE)
        console.print(_item(f"{label}: {told[:_LONGEST_MESSAGE]}{end}"))
    if report.untried:
        console.print(_item(f"no second message: {report.untried}"))
    if report.failures:
        _print_failures(report, console, repeat=repeat, every_failure=every_failure)
    for heading, lines in _lists(report).items():
        if lines:
            _print_heading(console, heading)
        for line in lines:
            console.print(_item(line))
    if report.verdict is Verdict.PASSED:
        console.print()
        console.print("A pass has limits: “What a pass does not mean” in the README lists them.")
    console.print()
    last = Text(single_line(report.verdict_line), _STYLES[report.verdict])
    console.print(last, soft_wrap=True)  # one line, so that a log can be searched for it


def print_scenario(result: Result, console: Console) -> None:
    """Print one scenario: its fault, its course, its differences and remarks."""
    at = f", at {result.site}" if result.site else ""
    _print_heading(console, f"{result.scenario}{at}")
    console.print(f"The fault: {MEANING[result.fault]}.")
    course = Table.grid(padding=(0, 1))
    course.add_column(justify="right")
    course.add_column(overflow="fold")
    for number, step in _folded(result.course):
        course.add_row(f"{number:>4}" if number else "", single_line(step))
    console.print(course)
    if not result.fired:
        console.print("The fault did not take place: this scenario shows nothing.")
    elif not result.differences:
        console.print("It ends as the clean run does.")
    for found in result.differences:
        site = f" ({found.site})" if found.site else ""
        detail = f": {found.detail}" if found.detail else ""
        times = f" × {found.count}" if found.count > 1 else ""
        why = f" (accepted: {found.accepted})" if found.accepted else ""
        console.print(_item(f"{found.kind}{times}: {found.what}{site}{detail}{why}", style="red"))
    for remark in result.remarks:
        console.print(_item(remark))


def _folded(course: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the steps with their numbers; steps that come again at once are counted."""
    same, number = [_PROCESS.sub("", step) for step in course], 0
    while number < len(course):
        for size in range(1, _LONGEST_REPEATED + 1):
            block, times = same[number : number + size], 1
            while same[number + times * size : number + (times + 1) * size] == block:
                times += 1
            if times > 1 and times * size > size + 1:
                break
        else:
            size = times = 1
        yield from enumerate(course[number : number + size], number + 1)
        if times > 1:
            steps = "this step comes" if size == 1 else f"these {size} steps come"
            yield 0, f"({steps} {times - 1} times more)"
        number += times * size


def text_of(print_to: Callable[[Console], None], *, width: int = _WIDTH) -> str:
    """Return what a function prints to a console, as plain text."""
    file = io.StringIO()
    print_to(EscapingConsole(file, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _table(lines: Iterable[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("fault", no_wrap=True)
    table.add_column("run", justify="right")
    table.add_column("fired", justify="right")
    table.add_column("failed")
    table.add_column("at", overflow="fold")
    for row in lines:
        if not row.results:
            table.add_row(row.fault, "–", "–", Text("not run", "dim"), "")
            continue
        if row.kinds:
            found = Text(kinds_text(row.kinds), "red")
        else:
            found = Text("✓", "green") if row.fired else Text("never took place", "yellow")
        sites = dict.fromkeys(result.site for result in row.failures if result.site)
        shown = [*sites][:2] + [f"and {len(sites) - 2} more"] * (len(sites) > 2)
        table.add_row(row.fault, str(len(row.results)), str(row.fired), found, "\n".join(shown))
    return table


def _print_failures(
    report: Report, console: Console, *, repeat: Repeat, every_failure: bool
) -> None:
    total = count(len(report.failures), "failing scenario")
    heading = f"The shortest of {total} for each kind and place"
    _print_heading(console, total if every_failure else heading)
    for result in report.failures if every_failure else report.shortest:
        print_scenario(result, console)
        console.print(_item("To repeat it:"))
        # One line, however long, so that it can be copied.
        console.print(f"    {single_line(repeat(result.scenario))}", soft_wrap=True)


def _lists(report: Report) -> dict[str, list[str]]:
    """Return lines by their heading; an empty list is not printed."""
    idle = [result.scenario for result in report.results if not result.fired]
    accepted = (
        f"{result.fault}: {found.kind}: {found.what}: {found.accepted}"
        for result in report.results
        for found in result.differences
        if found.accepted
    )
    remarks = (remark for r in report.results if r.fired for remark in r.remarks)
    return {
        "Remarks": [*dict.fromkeys(remarks), *report.warnings],
        "Accepted": [*dict.fromkeys(accepted)],
        "Not compared": [f"{name}: {why}" for name, why in report.ignored.items()],
        "Not run": [f"{fault}: {why}" for fault, why in report.not_run.items()],
        "The fault did not take place in": [", ".join(idle)] * bool(idle),
    }


def _print_heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(single_line(text), "bold"))


def _item(text: str, *, style: str = "") -> Padding:
    return Padding(Text(single_line(text), style, overflow="fold"), (0, 0, 0, 2), expand=False)
