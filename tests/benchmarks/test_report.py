"""The report, the page, the goals and the exit status of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from benchmarks import __main__ as command
from benchmarks import contenders, report
from benchmarks.batches import Wrong
from benchmarks.goals import Goal, goals_of
from benchmarks.rows import Row
from benchmarks.webhooks import INGRESS
from tests.benchmarks.bench import IMPORTS, rows

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def with_figures(field: str, value: float, **selected: Any) -> list[Row]:
    """Return good rows, with another figure in the selected ones."""
    found = rows()
    for row in found:
        if selected.items() <= row.items():
            row[field] = value
    return found


def missed(found: list[Row], imports: list[Row] = IMPORTS) -> set[str]:
    return {goal.figure for goal in goals_of(found, imports) if not goal.holds}


def test_every_goal_holds_in_a_good_run_and_none_without_figures() -> None:
    assert missed(rows()) == set()
    goals = goals_of(rows(), IMPORTS)
    assert [goal.seen for goal in goals if goal.figure.startswith("import")] == [1.3, 1.4, 1.2]
    assert len(missed([], [])) == len(goals)


@pytest.mark.parametrize(
    ("found", "missing", "holding"),
    [
        pytest.param(
            rows(grouped_units=5),
            {
                "grouped, 10 % duplicates, write units / raw",
                "any Once, 5 % conflicts, write units / raw",
            },
            "any Once, 5 % conflicts, requests / raw",
            id="the upper bound of write units counts",
        ),
        pytest.param(
            with_figures("requests_vs_raw", 1.2, contender=contenders.UNGROUPED, records=100),
            {"any Once, 5 % conflicts, requests / raw"},
            "grouped, wall / raw",
            id="the worst form of the library counts",
        ),
        pytest.param(
            with_figures("requests_per_message", 0.25, kind="effects", call_ms=50),
            {"ten effects, requests of a message"},
            "ten effects, wall / raw with threads",
            id="effects have goals at each time of a call",
        ),
        pytest.param(
            with_figures("vs_put", 1.9, contender=INGRESS, request="genuine", delay_ms=0),
            {"webhook ingress, 0 ms, wall / verify, then put"},
            "webhook ingress, 5 ms, wall / verify, then put",
            id="a slow ingress is detected at each delay",
        ),
    ],
)
def test_worse_figures_miss_their_goals(found: list[Row], missing: set[str], holding: str) -> None:
    assert missing <= missed(found)
    assert holding not in missed(found)


def test_the_page_gets_the_figures_of_the_run_and_keeps_its_text() -> None:
    old = f"# Title\n\n{BEGIN}\noutdated\n{END}\n\nrest\n"
    new = report.rewritten(old, rows(), IMPORTS, goals_of(rows(), IMPORTS))
    assert new.startswith("# Title\n\n")
    assert new.endswith(f"{END}\n\nrest\n")
    assert "outdated" not in new
    for line in (
        "| Once, grouped | 0.040 | 0.040 | 0.040 | 0.040 | 0.040 | 0.13 | – |",
        "| Once, 4 threads | 0.91 | 1,000 | 100 | 2,000 | 1,000 |",
        "| Once | 1.20 | 0.12 | 1.05 | 0.20 | 1.20 | 0.12 | 1.05 | 0.20 |",
        "pydantic 1.08.",
        "boto3 and a client 1.00, orders 1.30, payments 1.40, webhooks 1.20.",
        "| webhook ingress, forged | 1.05 | 1.05 | – | 1.05 | 5,250 | 5,250 |",
        "Of 34 goals (`benchmarks/goals.py`) 34 hold.",
    ):
        assert line in new


def test_the_page_names_a_missed_goal() -> None:
    goals = [Goal("one", 0.16, 0.17), Goal("two", 1.0, None), Goal("three", 1.0, 1.0)]
    text = report.rewritten(f"{BEGIN}{END}", [], [], goals)
    assert "Of 3 goals (`benchmarks/goals.py`) 1 hold." in text
    assert "- **Missed:** one: 0.170; the goal is at most 0.16." in text
    assert "- **Missed:** two: not measured; the goal is at most 1.00." in text


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "REPORT", tmp_path / "reports" / "bench.json")
    monkeypatch.setattr(command, "PAGE", tmp_path / "page.md")
    command.PAGE.write_text(f"{BEGIN}{END}")


def run(monkeypatch: pytest.MonkeyPatch, found: list[Row], *arguments: str) -> Result:
    def measure(into: list[Row], imports: list[Row]) -> None:
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
    assert "Missed: grouped, wall / raw" in done.stdout
    assert "- **Missed:** grouped, wall / raw" in command.PAGE.read_text()
    assert json.loads(command.REPORT.read_text()) == rows(grouped_wall=900)


def test_the_page_is_rewritten_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, rows()).exit_code == 0
    assert command.REPORT.exists()
    assert command.PAGE.read_text() == f"{BEGIN}{END}"


def test_an_invalid_measurement_fails_and_keeps_the_earlier_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [*rows(), {**rows()[0], "repeats": 0}]
    assert run(monkeypatch, found, "--write").exit_code == 1
    assert json.loads(command.REPORT.read_text()) == found
    assert command.PAGE.read_text() == f"{BEGIN}{END}"
