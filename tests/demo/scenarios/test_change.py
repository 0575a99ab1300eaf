"""The change scenario: its phases can be deployed, and its audit counts each harm."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from demo.audit import Findings
from demo.scenarios.apps import PHASES, registry_of
from demo.scenarios.change import count_change
from once.cdk import DeploymentConfig
from once.cdk.app.assembly import registry_faults
from tests.architecture.imports import ROOT

ORDER = {"order_id": "o-1", "refused": False, "declined": False}
CLEAN = {"lost": 0, "doubled": 0, "letters_lost": 0, "unfinished": 0}
DEAD_LETTERS = {("inventory", "o-1"), ("loyalty", "o-1")}


def count(
    *,
    status: str = "paid",
    reservation: str = "sold",
    points: int = 1,
    left: int = 0,
    **findings: Any,
) -> dict[str, int]:
    """Return the figures of one order that was due and had a dead letter at two consumers."""
    tables = {
        "orders": {"o-1": {"status": {"S": status}}},
        "reservations": {"o-1": {"status": {"S": reservation}}},
        "points": {"o-1": {"points": {"N": str(points)}}} if points else {},
    }
    evidence = SimpleNamespace(by_key=lambda table, _: tables[table])
    return count_change(
        Findings(sent=1, distinct=1, **findings),
        {"orders": [ORDER]},
        cast(Any, evidence),
        due={"o-1"},
        seen=DEAD_LETTERS,
        left=left,
    )


def test_a_change_without_harm_counts_nothing() -> None:
    assert count() == CLEAN


@pytest.mark.parametrize(
    ("harm", "figures"),
    [
        ({"lost": 1}, {"lost": 1}),
        ({"doubled": 2}, {"doubled": 2}),
        ({"unfinished": 3}, {"unfinished": 3}),
        ({"left": 1}, {"unfinished": 1}),
        ({"unexplained_dead_letters": 1}, {"unfinished": 1}),
        ({"points": 3}, {"doubled": 2}),
        ({"points": 0}, {"lost": 1, "letters_lost": 1}),
        ({"reservation": "reserved"}, {"letters_lost": 1}),
        ({"status": "placed"}, {"letters_lost": 1}),
    ],
    ids=[
        *("an effect lost", "effects doubled", "orders without an end", "a message left"),
        "a dead letter left",
        *("points given again", "a point missing", "a reservation held", "an order held"),
    ],
)
def test_each_harm_is_counted(harm: dict[str, Any], figures: dict[str, int]) -> None:
    assert count(**harm) == CLEAN | figures


CONFIG = DeploymentConfig(
    local=True, parameters=json.loads((ROOT / "cdk.json").read_text())["context"]
)


SCENARIOS = [("hostile",), ("fifo",), ("webhooks",), *(("change", phase) for phase in PHASES)]


@pytest.mark.parametrize("arguments", SCENARIOS, ids="-".join)
def test_the_registry_of_a_scenario_has_no_fault(arguments: tuple[str, ...]) -> None:
    assert registry_faults(registry_of(*arguments), CONFIG) == []
