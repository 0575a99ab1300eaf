"""The report: `reports/demo.json` has the documented figures, and the table shows them all."""

import json
from collections import Counter
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest
from rich.console import Console

from demo import command
from demo.audit import Findings
from demo.payment_sandbox import PaymentFault
from demo.report import FAULT_FIGURES, FIGURES, SPEED_FIGURES, write_report
from demo.run import TrafficRun
from demo.scenarios import faults
from tests.demo.audit.sample import CLEAN

OF_THE_RUN = {
    "charge_answers_dropped": 94,
    "functions_killed": 30,
    "messages_per_second": 31.5,
    "deploy_seconds": 12.3,
}
FOUND = {
    "sent": 101,
    "distinct": 102,
    "deliveries": 103,
    "effects": 104,
    "refused": 105,
    "lost": 106,
    "doubled": 107,
    "balance_error": 108,
    "unexplained_dead_letters": 109,
    "orders_paid": 110,
    "orders_refused": 111,
    "orders_declined": 112,
    "charges": 113,
    "double_charges": 114,
    "stock_balance_error": 115,
    "emails": 116,
    "unfinished": 117,
}
DOCUMENTED = {**FOUND, **OF_THE_RUN, "quarantined": 7}
RED, GREEN = "\x1b[1;31m", "\x1b[1;32m"


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("demo.report.REPORTS", tmp_path / "reports")
    return tmp_path / "reports"


def findings() -> Findings:
    """Findings of which each figure has a value of its own."""
    figures: dict[str, Any] = FOUND
    return Findings(**figures, quarantined_by_reason=Counter({"invalid-data": 5, "no-key": 2}))


def printed(found: Findings, **options: Any) -> list[str]:
    paper = StringIO()
    write_report(found, OF_THE_RUN, Console(file=paper, width=100, **options))
    return paper.getvalue().splitlines()


def written(reports: Path) -> Any:
    return json.loads((reports / "demo.json").read_text())


def test_the_file_has_the_documented_figures_and_no_others(reports: Path) -> None:
    printed(findings())
    assert written(reports) == DOCUMENTED


def test_the_demo_hands_over_every_figure_of_its_run(
    reports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TrafficRun(manifest={}, seconds=2.0, killed=30)
    steps = {"send_traffic": run, "collect_evidence": None, "audit": findings()}
    for name, result in steps.items():
        monkeypatch.setattr(faults, name, lambda *_, result=result, **__: result)
    monkeypatch.setattr(faults, "console", Console(file=StringIO()))
    monkeypatch.setattr(command, "deploy_service", lambda *_, **__: None)
    sandbox: Any = SimpleNamespace(
        url="", fired=Counter({PaymentFault.DROP: 94, PaymentFault.DELAY: 3})
    )
    aws: Any = None
    command._deploy_and_run(aws, sandbox, command.Scenario.FAULTS)
    assert written(reports) == {**DOCUMENTED, "messages_per_second": 51.5, "deploy_seconds": ANY}


def test_a_later_run_takes_the_place_of_an_earlier_one(reports: Path) -> None:
    printed(findings())
    printed(CLEAN)
    assert written(reports)["sent"] == CLEAN.sent


def test_the_table_shows_every_figure_and_every_reason(reports: Path) -> None:
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed(findings())]
    rows = {row[0]: row[1] for row in cells if len(row) == 2}
    known = {**FIGURES, **FAULT_FIGURES, **SPEED_FIGURES}.items()
    labels = {label: str(DOCUMENTED[name]) for name, label in known if name in DOCUMENTED}
    assert rows == {**labels, "invalid-data": "5", "no-key": "2"}
    assert len(labels) == len(DOCUMENTED)


def test_a_fault_is_red(reports: Path) -> None:
    lines = "\n".join(printed(findings(), force_terminal=True, color_system="standard"))
    assert lines.count(RED) == len(FAULT_FIGURES)
    assert GREEN not in lines


def test_what_is_0_as_it_must_be_is_green(reports: Path) -> None:
    lines = "\n".join(printed(CLEAN, force_terminal=True, color_system="standard"))
    assert lines.count(GREEN) == len(FAULT_FIGURES)
    assert RED not in lines
