"""The report of a soak: one wrong figure, or too few faults, and the soak fails."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from demo.audit import Findings
from demo.report import FAULT_FIGURES
from proof.soak import SOAK, audit_figures, conclude

FAULTS = {
    "kills": 200,
    "kills_in_mid_batch": 60,
    "drops": 400,
    "answers_lost": 250,
    "charge_answers_dropped": 100,
}


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("demo.report.REPORTS", tmp_path)
    return tmp_path


def figures(**changed: Any) -> dict[str, Any]:
    findings = Findings(sent=5010, distinct=2500, effects=9000)
    findings.quarantined_by_reason = Counter({"effect-unknown": 3})
    return {**audit_figures(findings), **FAULTS, **changed}


def test_a_soak_with_enough_faults_and_nothing_wrong_passes(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conclude(figures(), SOAK) == 0
    written = json.loads((reports / "soak.json").read_text())
    assert written == {**figures(), "complaints": []}
    assert written["quarantined"] == {"effect-unknown": 3}
    assert "5010" in capsys.readouterr().out
    assert (SOAK.least["sends"], SOAK.least["kills"], SOAK.least["drops"]) == (5000, 200, 200)


@pytest.mark.parametrize("fault", FAULT_FIGURES)
def test_a_wrong_figure_fails(
    fault: str, reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conclude(figures(**{fault: 1}), SOAK) == 1
    complaint = f"{fault} is 1, and must be 0"
    assert json.loads((reports / "soak.json").read_text())["complaints"] == [complaint]
    assert complaint in capsys.readouterr().out


@pytest.mark.parametrize(("name", "number"), SOAK.least.items())
def test_a_figure_below_its_minimum_fails(
    name: str, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conclude(figures(**{name: number}), SOAK) == 0
    assert conclude(figures(**{name: number - 1}), SOAK) == 1
    assert f"{name} is {number - 1}, and less than {number}" in capsys.readouterr().out


def test_every_figure_that_must_be_0_is_reported() -> None:
    assert set(FAULT_FIGURES) >= {"lost", "doubled", "double_charges", "unexplained_dead_letters"}
    assert set(FAULT_FIGURES) < set(figures())
