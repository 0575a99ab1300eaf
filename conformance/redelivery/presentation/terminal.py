"""Report for people: table of the faults, failing scenarios step by step, differences by site."""

import io
from collections.abc import Callable, Iterable, Mapping

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from redelivery.faults import MEANING, Fault
from redelivery.presentation.escaping import EscapingConsole, single_line
from redelivery.presentation.limits import LIMITS
from redelivery.presentation.summary import (
    Finding,
    Row,
    Verdict,
    count,
    findings_by_site,
    kinds_text,
    rows,
    verdict,
    verdict_line,
)
from redelivery.report import Difference, Report, Result

Repeat = Callable[[str], str]
"""Returns the command or call that repeats a scenario, given its name."""

_WIDTH = 80
_STYLES = {Verdict.PASSED: "bold green", Verdict.FAILED: "bold red", Verdict.NONE: "bold yellow"}


def print_report(
    report: Report, console: Console, *, repeat: Repeat, every_failure: bool = False
) -> None:
    """Print a report; its last line is the verdict.

    Args:
        report: the report.
        console: an `EscapingConsole`.
        repeat: makes the command that repeats a scenario.
        every_failure: tell each failing scenario instead of the one with the shortest course.
    """
    console.print(_headline(report))
    console.print()
    console.print(_table(rows(report)))
    _print_failures(report, console, repeat=repeat, every_failure=every_failure)
    for heading, lines in _lists(report):
        _print_list(console, heading, lines)
    console.print()
    line = Text(single_line(verdict_line(report)), _STYLES[verdict(report)])
    console.print(line, soft_wrap=True)  # one line, so that a log can be searched for it


def print_scenario(result: Result, console: Console) -> None:
    """Print one scenario: its fault, its course, its differences and remarks."""
    at = f", at {result.site}" if result.site else ""
    console.print()
    console.print(Text(single_line(f"{result.scenario}{at}"), "bold"))
    console.print(f"The fault: {MEANING[result.fault]}.")
    console.print(_numbered(result.course))
    if not result.fired:
        console.print("The fault did not take place: this scenario shows nothing.")
    elif not result.differences:
        console.print("It ends as the clean run does.")
    for difference in result.differences:
        console.print(_difference(difference))
    for remark in result.remarks:
        console.print(_item(remark))


def print_faults(meanings: Mapping[Fault, str], console: Console) -> None:
    """Print each fault with its meaning."""
    table = Table.grid(padding=(0, 2))
    for fault, meaning in meanings.items():
        table.add_row(Text(fault, "bold", no_wrap=True), meaning)
    console.print(table)


def text_of(print_to: Callable[[Console], None], *, width: int = _WIDTH) -> str:
    """Return what a function prints to a console, as plain text."""
    file = io.StringIO()
    print_to(EscapingConsole(file, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _headline(report: Report) -> str:
    controls = f"{sum(report.controls.values())} of {count(len(report.controls), 'control')}"
    return (
        f"{report.handler}: seed {report.seed}, {report.seconds:.1f} s, {controls} judged rightly"
    )


def _table(lines: Iterable[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("fault", no_wrap=True)
    table.add_column("run", justify="right")
    table.add_column("fired", justify="right")
    table.add_column("failed")
    table.add_column("at", overflow="fold")
    for row in lines:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str | Text, ...]:
    if not row.results:
        return (row.fault, "–", "–", Text("not run", "dim"), "")
    sites = "\n".join(row.sites[:2]) + (f"\nand {len(row.sites) - 2} more" * (len(row.sites) > 2))
    return (row.fault, str(len(row.results)), str(row.fired), _found(row), sites)


def _found(row: Row) -> Text:
    if row.kinds:
        return Text(kinds_text(row.kinds), "red")
    return Text("✓", "green") if row.fired else Text("never took place", "yellow")


def _print_failures(
    report: Report, console: Console, *, repeat: Repeat, every_failure: bool
) -> None:
    if not report.failures:
        return
    total = count(len(report.failures), "failing scenario")
    _heading(console, total if every_failure else f"The shortest of {total}")
    for result in report.failures if every_failure else report.failures[:1]:
        print_scenario(result, console)
        console.print(_item("To repeat it:"))
        # One line, however long, so that it can be copied.
        console.print(f"    {single_line(repeat(result.scenario))}", soft_wrap=True)
    _heading(console, "Differences by call site")
    for site, findings in findings_by_site(report.failures).items():
        console.print(Text(single_line(site or "(no call site)"), "bold"))
        for finding in findings:
            console.print(_finding(finding))


def _numbered(steps: Iterable[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for number, step in enumerate(steps, 1):
        table.add_row(f"{number:>4}", single_line(step))
    return table


def _difference(difference: Difference) -> Padding:
    at = f" ({difference.site})" if difference.site else ""
    detail = f": {difference.detail}" if difference.detail else ""
    times = f" × {difference.count}" if difference.count > 1 else ""
    return _item(f"{difference.kind}{times}: {difference.what}{at}{detail}", style="red")


def _finding(finding: Finding) -> Padding:
    first, others = finding.scenarios[0], len(finding.scenarios) - 1
    where = f"{first} and {others} more" if others else first
    return _item(f"{finding.difference.kind}: {finding.difference.what}, in {where}")


def _lists(report: Report) -> Iterable[tuple[str, list[str]]]:
    """Yield headings with their lines; an empty list is not printed."""
    remarks = dict.fromkeys(remark for r in report.results if r.fired for remark in r.remarks)
    yield "Remarks", list(remarks)
    yield "Not compared", [f"{name}: {why}" for name, why in report.ignored.items()]
    yield "Not run", [f"{fault}: {why}" for fault, why in report.not_run.items()]
    idle = [result.scenario for result in report.results if not result.fired]
    yield "The fault did not take place in", [", ".join(idle)] if idle else []
    wrong = [name for name, right in report.controls.items() if not right]
    yield "Controls that this run judged wrongly: do not trust it", wrong
    if verdict(report) is Verdict.PASSED:
        yield "What a pass does not mean", list(LIMITS)


def _print_list(console: Console, heading: str, lines: list[str]) -> None:
    if lines:
        _heading(console, heading)
    for line in lines:
        console.print(_item(line))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(single_line(text), "bold"))


def _item(text: str, *, style: str = "") -> Padding:
    return Padding(Text(single_line(text), style, overflow="fold"), (0, 0, 0, 2), expand=False)
