"""The lab's command: the matrix, or the story of one cell."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from lab.matrix import picture, report
from lab.matrix.cells import Verdict
from lab.matrix.runs import Run, report_of, run_all, servers_of
from lab.matrix.story import story
from lab.matrix.table import matrix
from lab.stores.servers import servers
from lab.subjects import APPROACHES
from redelivery import Fault

REPORT = Path(__file__).resolve().parents[2] / "reports" / "lab.json"


def show_matrix(
    names: Sequence[str], faults: Sequence[Fault], *, seed: int, draw: bool, console: Console
) -> bool:
    """Check approaches and print the matrix; return whether all were checked and Once is clean.

    A matrix of all approaches and faults is also written as `reports/lab.json`.

    Args:
        names: the approaches.
        faults: the faults.
        seed: draws values and interleavings.
        draw: whether to write the picture for the pages, too.
        console: where to print.
    """
    console.print(f"{len(names)} approaches, {len(faults)} faults")
    runs: dict[str, Run] = {}
    for run in run_all(names, faults, seed):
        runs[run.approach] = run
        console.print(Text(f"{len(runs)}/{len(names)} {_summary(run)}"), soft_wrap=True)
    ordered = [runs[name] for name in names]
    content = report.report(ordered, faults, seed)
    if set(names) == set(APPROACHES) and set(faults) == set(Fault):
        report.write(content, REPORT)
    if draw:
        picture.write(content)
    console.print(matrix({run.approach: run.cells for run in ordered}, faults, console.width))
    return _conclude(ordered, faults, console)


def show_cell(name: str, fault: Fault, *, seed: int, console: Console) -> None:
    """Print one cell step by step.

    Raises:
        SubjectError: the approach fails without any fault.
    """
    with servers(servers_of([name])) as urls:
        found = report_of(name, [fault], seed, urls)
    for line in story(name, fault, found):
        console.print(line, soft_wrap=True)


def _summary(run: Run) -> str:
    if run.error:
        return f"{run.approach}: {run.error}"
    cells = run.cells.values()
    ran = sum(cell.verdict is not Verdict.NOT_RUN for cell in cells)
    failed = sum(cell.verdict is Verdict.FAILED for cell in cells)
    fired = sum(cell.fired for cell in cells)
    return (
        f"{run.approach}: {failed} of {ran} faults do harm ({fired} scenarios, {run.seconds:.0f} s)"
    )


def _conclude(runs: Sequence[Run], faults: Sequence[Fault], console: Console) -> bool:
    for run in runs:
        if run.error:
            console.print(Text(f"{run.approach} is no evidence: {run.error}", style="red"))
    if any(run.error for run in runs):
        return False
    if report.ONCE not in {run.approach for run in runs}:
        return True
    clean = report.once_clean(runs, faults)
    verdict = "Once passes every cell" if clean else "Once does not pass every cell"
    console.print(Text(verdict, style="green" if clean else "red"))
    return clean
