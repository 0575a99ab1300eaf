"""The examples in README and documents run, and its ratios hold for the measured figures."""

import json
import re
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from once.cdk import ConsumerProps, TableProps
from once.cdk.checks.consumer_props import line_group_faults
from once.cdk.checks.consumer_set import group_set_faults
from once.events.identity import message_group
from tests.architecture.imports import ROOT

README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"


def blocks(document: Path) -> list[str]:
    return re.findall(r"^ *```python\n(.*?)```", document.read_text(), re.DOTALL | re.MULTILINE)


def run(document: Path, *examples: str, **given: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example", **given}
    for example in examples:
        exec(compile(example, document.name, "exec"), names)
    return names


def test_the_handler_and_its_test_run() -> None:
    names = run(README, *blocks(README)[:2])
    assert set(names["consumer"].handlers) == {"seat.booked"}


def test_the_registry_line_is_valid() -> None:
    table, line = blocks(README)[2].splitlines()
    names = run(README, table, ConsumerProps=ConsumerProps, TableProps=TableProps)
    assert eval(line, names).name == "tickets"


def test_the_fifo_page_declares_lines_and_publishes_in_a_group() -> None:
    document, calls = ROOT / "docs" / "fifo.md", list[dict[str, Any]]()
    sns = SimpleNamespace(publish=lambda **call: calls.append(call))
    given = {"json": json, "sha256": sha256, "message_group": message_group, "sns": sns}
    names = run(document, *blocks(document), ConsumerProps=ConsumerProps, **given)
    assert consumer_group_faults(names["FAIR"], names["ORDERED"]) == []
    data = {"account_id": 7, "entry_id": "e-1"}
    names["publish"]({"type": "account.entered", "data": data}, "topic")
    [call] = calls
    assert call["MessageGroupId"] == "7"
    assert len(call["MessageDeduplicationId"]) == 64


def consumer_group_faults(*lines: ConsumerProps) -> list[str]:
    return [*(f for line in lines for f in line_group_faults(line)), *group_set_faults(lines)]


class Bank:
    """The provider of the example: answers from a list, and records the keys."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.keys: list[str] = []

    def refund(self, amount: int, *, idempotency_key: str, timeout: float) -> Any:
        self.keys.append(idempotency_key)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_effect_and_its_test_run() -> None:
    bank, document = Bank(), ROOT / "docs" / "effects.md"
    run(document, *blocks(document)[:2], bank=bank)
    assert len(bank.keys) == 2


def test_the_workflow_and_its_test_run() -> None:
    document = ROOT / "docs" / "effects.md"
    names = run(document, *blocks(document)[2:])
    assert names["execution"]["status"] == "RUNNING"


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) < 120


@pytest.mark.parametrize(
    ("row", "claim", "contender", "least", "most"),
    [
        ("| Powertools' idempotency |", "three times a", "Powertools", 2.5, 3.5),
        ("| **Once**, ten a commit |", "less than a seventh of a", "Once, grouped", 0.0, 1 / 7),
    ],
)
def test_the_readme_states_a_ratio_that_holds_for_the_measured_one(
    row: str, claim: str, contender: str, least: float, most: float
) -> None:
    (line,) = (line for line in README.read_text().splitlines() if line.startswith(row))
    assert f", {claim} transaction's time" in line
    table = PERFORMANCE.read_text().split("<!-- measured: begin -->")[1].split("\n\n")[1]
    (at_5_ms,) = re.findall(rf"^\| {contender} \| [\d.]+ \| ([\d.]+) \|", table, re.MULTILINE)
    assert least < float(at_5_ms) < most
