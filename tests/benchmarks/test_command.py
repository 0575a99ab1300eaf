"""The exit status of `python -m benchmarks`, and the files that it writes."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from benchmarks import __main__ as command
from benchmarks.batches import Wrong
from benchmarks.page import BEGIN, END
from benchmarks.rows import Row
from tests.benchmarks.sample_rows import IMPORTS, rows


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("REPORT", "QUICK_REPORT", "CHART", "PAGE"):
        path = tmp_path / name.lower() / "file"
        monkeypatch.setattr(command, name, path)
    (tmp_path / "page").mkdir()
    command.PAGE.write_text(f"{BEGIN}{END}")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, found: list[Row], *arguments: str) -> Result:
    def measure(into: list[Row], imports: list[Row], *, in_short: bool) -> None:
        into += found
        imports += IMPORTS
        if not found[-1]["repeats"]:
            raise Wrong("an order is missing")

    monkeypatch.setattr(command, "_measure", measure)
    app = typer.Typer()
    app.command()(command.bench)
    return CliRunner().invoke(app, arguments)


def test_a_missed_goal_is_reported_and_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, rows(grouped_wall=900), "--write")
    assert done.exit_code == 0
    assert "- **Missed:** grouped, wall / raw" in command.PAGE.read_text()
    assert command.CHART.read_text().startswith("<svg")
    assert json.loads(command.REPORT.read_text()) == rows(grouped_wall=900)


def test_page_and_chart_are_rewritten_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, rows())
    assert done.exit_code == 0
    assert command.REPORT.exists()
    assert not command.CHART.exists()
    assert command.PAGE.read_text() == f"{BEGIN}{END}"
    monkeypatch.setenv("WRITE", "1")
    run(monkeypatch, rows())
    assert command.CHART.exists()
    assert command.PAGE.read_text() != f"{BEGIN}{END}"


def test_an_invalid_measurement_fails_and_keeps_the_earlier_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [*rows(), {**rows()[0], "repeats": 0}]
    done = run(monkeypatch, found, "--write")
    assert done.exit_code == 1
    assert json.loads(command.REPORT.read_text()) == found
    assert not command.CHART.exists()
    assert command.PAGE.read_text() == f"{BEGIN}{END}"


def test_a_quick_run_writes_its_own_report_only(monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(monkeypatch, rows(), "--quick", "--write")
    assert done.exit_code == 0
    assert command.QUICK_REPORT.exists()
    assert not command.REPORT.exists()
    assert not command.CHART.exists()
    assert command.PAGE.read_text() == f"{BEGIN}{END}"
