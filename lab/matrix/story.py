"""One cell in words: what happened, step by step."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from lab.matrix.cells import NEVER_FIRED
from redelivery import MEANING, Fault, Report, Result


def story(approach: str, fault: Fault, report: Report) -> Iterator[Text]:
    """Yield the lines of a cell: its smallest failing scenario, or one that passed.

    Args:
        approach: its name.
        fault: the fault.
        report: a report that has the fault's scenarios.
    """
    yield Text(f"{approach}, {fault}: {MEANING[fault]}", style="bold")
    fired = [result for result in report.of(fault) if result.fired]
    failures = [result for result in report.failures if result.fault is fault]
    if not fired:
        yield Text(f"not run: {report.not_run.get(fault, NEVER_FIRED)}", style="yellow")
    elif failures:
        yield Text(f"{len(failures)} of {len(fired)} scenarios fail", style="red")
        yield from _scenario(failures[0])
    else:
        yield Text(f"all {len(fired)} scenarios end as without a fault", style="green")
        yield from _scenario(max(fired, key=lambda result: len(result.course)))


def _scenario(result: Result) -> Iterator[Text]:
    at = f", at {result.site}" if result.site else ""
    yield Text(f"\nScenario {result.scenario}{at}")
    yield from _numbered(result.course)
    yield Text("")
    for difference in result.differences:
        where = f" ({difference.site})" if difference.site else ""
        text = f"{difference.kind}: {difference.what}{where}. {difference.detail}"
        yield Text(text.rstrip(), style="red")
    if not result.differences:
        yield Text("No difference from the run without a fault.", style="green")
    for remark in result.remarks:
        yield Text(f"remark: {remark}", style="dim")


def _numbered(course: Sequence[str]) -> Iterator[Text]:
    width = len(str(len(course)))
    for number, step in enumerate(course, 1):
        yield Text(f"  {number:>{width}}. {step}")
