"""Command line of the bench: `python -m benchmarks`."""

import json
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape

from benchmarks import report
from benchmarks.batches import Setting, Wrong, batch_rows, contenders_in, full, quick
from benchmarks.dynamodb import Delay
from benchmarks.effects import CALLS_MS, effect_rows
from benchmarks.embedded import measure_embedded
from benchmarks.goals import goals_of
from benchmarks.models import model_rows
from benchmarks.rows import Row
from benchmarks.server import bench_server
from benchmarks.webhooks import DELAYS, PAIRS, webhook_rows, webhook_samples
from emulator.installed import ROOT
from emulator.local.steps import step

REPEATS, IMPORT_REPEATS = 5, 3
EMBEDDED_REPEATS, EMBEDDED_MESSAGES = 3, 800
QUICK_PAIRS = 10
REPORT = ROOT / "reports" / "bench.json"
QUICK_REPORT = ROOT / "reports" / "bench-quick.json"
PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "img" / "bench.svg"

console = Console()


def bench(
    in_short: Annotated[
        bool, typer.Option("--quick", help="Check that it works, with few samples.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", envvar="WRITE", help="Rewrite the page and its picture.")
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
        _measure(rows, imports, in_short=in_short)
    except Wrong as error:
        wrong = error
    finally:
        # The rows before a failure are kept.
        goals = goals_of(rows, imports)
        console.print(Markdown("\n".join(report.measured(rows, imports, goals))))
        file = QUICK_REPORT if in_short else REPORT
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(rows, indent=2) + "\n")
    if wrong is not None:
        console.print(f"[red]The measurement is wrong: {escape(str(wrong))}", soft_wrap=True)
        raise typer.Exit(1)
    if write and not in_short:
        CHART.parent.mkdir(exist_ok=True)
        CHART.write_text(report.svg(rows))
        PAGE.write_text(report.rewritten(PAGE.read_text(), rows, imports, goals))


def _measure(rows: list[Row], imports: list[Row], *, in_short: bool) -> None:
    if in_short:
        _through_the_server(rows, list(quick()), repeats=1)
        _webhooks(rows, DELAYS[:1], QUICK_PAIRS)
        _effects_and_models(rows, CALLS_MS[:1], repeats=1)
        return
    _through_the_server(rows, list(full()), REPEATS)
    _webhooks(rows, DELAYS, PAIRS)
    _effects_and_models(rows, CALLS_MS, REPEATS)
    # Imported late: it loads the CDK, whose process would disturb the samples above.
    from benchmarks import cold_start

    console.print("measuring imports")
    imports += cold_start.measure(IMPORT_REPEATS)
    rows += measure_embedded(EMBEDDED_MESSAGES, EMBEDDED_REPEATS, console.print)


def _through_the_server(rows: list[Row], settings: Sequence[Setting], repeats: int) -> None:
    samples = repeats * sum(len(contenders_in(setting)) for setting in settings)
    with bench_server() as server, step("samples", console=console, total=samples) as shown:
        for setting in settings:
            shown.show(str(setting))
            began = time.monotonic()
            rows += batch_rows(server, setting, repeats, shown.advance)
            console.print(f"{time.monotonic() - began:5.1f} s  {setting}")


def _webhooks(rows: list[Row], delays: Sequence[Delay], pairs: int) -> None:
    with bench_server() as server:
        for delay_ms in delays:
            console.print(f"webhooks, answers: {delay_ms}")
            rows += webhook_rows(list(webhook_samples(server, delay_ms, pairs)))


def _effects_and_models(rows: list[Row], calls_ms: Sequence[int], repeats: int) -> None:
    with bench_server() as server:
        for call_ms in calls_ms:
            console.print(f"effects, calls of {call_ms} ms")
            rows += effect_rows(server, call_ms, repeats)
        console.print("models")
        rows += model_rows(server, repeats)


if __name__ == "__main__":
    typer.run(bench)
