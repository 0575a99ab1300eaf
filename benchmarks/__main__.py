"""Command line of the bench: `python -m benchmarks`."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape

from benchmarks import batches, commands, report, webhooks
from benchmarks.batches import Wrong
from benchmarks.effects import CALLS_MS, effect_rows
from benchmarks.embedded import measure_embedded
from benchmarks.goals import goals_of
from benchmarks.models import model_rows
from benchmarks.rows import Row
from benchmarks.server import bench_server
from emulator.installed import ROOT
from emulator.local.steps import step

REPEATS, IMPORT_REPEATS = 5, 3
EMBEDDED_REPEATS, EMBEDDED_MESSAGES = 3, 800
REPORT = ROOT / "reports" / "bench.json"
PAGE = ROOT / "docs" / "performance.md"

console = Console()


def bench(
    write: Annotated[
        bool, typer.Option("--write", envvar="WRITE", help="Rewrite the tables of the page.")
    ] = False,
) -> None:
    """Measure the cost of each way to handle a batch, and write the report.

    The page's figures are of one machine and are committed, so only --write (`make bench WRITE=1`)
    replaces them.
    """
    rows: list[Row] = []
    imports: list[Row] = []
    wrong = None
    try:
        _measure(rows, imports)
    except Wrong as error:
        wrong = error
    finally:
        # The rows before a failure are kept.
        goals = goals_of(rows, imports)
        console.print(Markdown("\n".join(report.measured(rows, imports, goals))))
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(json.dumps(rows, indent=2) + "\n")
    if wrong is not None:
        console.print(f"[red]The measurement is wrong: {escape(str(wrong))}", soft_wrap=True)
        raise typer.Exit(1)
    if write:
        PAGE.write_text(report.rewritten(PAGE.read_text(), rows, imports, goals))


def _measure(rows: list[Row], imports: list[Row]) -> None:
    with bench_server() as server:
        settings = list(batches.settings())
        total = REPEATS * sum(len(batches.contenders_in(each)) for each in settings)
        with step("samples", console=console, total=total) as shown:
            for setting in settings:
                shown.show(str(setting))
                rows += batches.batch_rows(server, setting, REPEATS, shown.advance)
        for delay_ms in webhooks.DELAYS:
            with step(f"webhooks, answers: {delay_ms}", console=console):
                rows += webhooks.measure(server, delay_ms, webhooks.PAIRS)
        for delay_ms in commands.DELAYS:
            with step(f"commands, answers: {delay_ms}", console=console):
                rows += commands.measure(server, delay_ms, commands.PAIRS)
        for call_ms in CALLS_MS:
            with step(f"effects, calls of {call_ms} ms", console=console):
                rows += effect_rows(server, call_ms, REPEATS)
        with step("models", console=console):
            rows += model_rows(server, REPEATS)
    # Imported late: it loads the CDK, whose process would disturb the samples above.
    from benchmarks import cold_start

    with step("imports", console=console):
        imports += cold_start.measure(IMPORT_REPEATS)
    rows += measure_embedded(EMBEDDED_MESSAGES, EMBEDDED_REPEATS, console.print)


if __name__ == "__main__":
    typer.run(bench)
