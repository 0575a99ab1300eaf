"""The report, the page, its missed goals and the exit status of a run."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from benchmarks import __main__ as command
from benchmarks.batches import Wrong
from benchmarks.rows import Row, row_of

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
ROWS: list[Row] = [row_of("raw", [{"wall_us": 1.0}], kind="other")]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "REPORT", tmp_path / "reports" / "bench.json")
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    command.PAGE.write_text(f"{BEGIN}{END}")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, wrong: bool = False) -> Result:
    def measure(into: list[Row], _: list[Row]) -> None:
        into += ROWS
        if wrong:
            raise Wrong("an order is missing")

    monkeypatch.setattr(command, "_measure", measure)
    app = typer.Typer()
    app.command()(command.bench)
    done = CliRunner().invoke(app, arguments)
    assert json.loads(command.REPORT.read_text()) == ROWS
    return done


def test_a_missed_goal_is_reported_and_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, "--write")
    assert done.exit_code == 0
    assert "Missed: grouped, wall / raw" in done.stdout
    assert "- **Missed:** grouped, wall / raw" in command.PAGE.read_text()


@pytest.mark.parametrize(("arguments", "wrong"), [((), False), (("--write",), True)])
def test_the_page_is_rewritten_on_request_only_and_not_by_an_invalid_measurement(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], *, wrong: bool
) -> None:
    assert run(monkeypatch, *arguments, wrong=wrong).exit_code == wrong
    assert command.PAGE.read_text() == f"{BEGIN}{END}"
