import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from demo.pictures import FOLDER, pictures
from demo.report import FAULT_FIGURES, report_orders
from tests.demo.audit.world import CLEAN

RUN_FIGURES = {
    "charge_answers_dropped": 94,
    "functions_killed": 30,
    "messages_per_second": 31.5,
    "deploy_seconds": 12.3,
}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("demo.report.REPORTS", tmp_path / "reports")
    return tmp_path / "reports"


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """The output of the report."""
    paper = StringIO()
    monkeypatch.setattr("demo.report.console", Console(file=paper, width=100))
    return paper


def written(reports: Path) -> Any:
    return json.loads((reports / "demo.json").read_text())


@pytest.mark.parametrize(
    ("changes", "minimum", "sentence"),
    [
        ({}, {"functions_killed": 30}, "Each of the 500 orders took effect once"),
        (
            {"lost": 1, "double_charges": 2},
            {},
            "broken:\nlost is 1, and must be 0\ndouble charges is 2",
        ),
        ({"effects": 0}, {}, "The run has failed"),
        ({}, {"functions_killed": 31}, "functions_killed is 30, and less than 31 proves nothing"),
    ],
)
def test_the_verdict_is_a_sentence(
    reports: Path,
    paper: StringIO,
    changes: dict[str, Any],
    minimum: dict[str, int],
    sentence: str,
) -> None:
    found = replace(CLEAN, distinct=500, **changes)
    passed = report_orders(found, RUN_FIGURES, minimum)
    assert passed is sentence.startswith("Each")
    assert sentence in paper.getvalue()
    complaints = written(reports)["complaints"]
    assert [each for each in complaints if each not in paper.getvalue()] == []
    assert len(complaints) == len(changes.keys() & FAULT_FIGURES) + ("less than" in sentence)


@pytest.mark.parametrize("name", ["demo.svg", "trace.svg"])
def test_a_picture_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == pictures()[name], "run `make redraw`"


def test_the_recorded_run_was_clean_in_spite_of_faults() -> None:
    figures = json.loads((FOLDER / "demo.json").read_text())
    assert {name: figures[name] for name in FAULT_FIGURES if name in figures} == dict.fromkeys(
        FAULT_FIGURES, 0
    )
    assert figures["charge_answers_dropped"] >= 50
    assert figures["functions_killed"] >= 20
