from dataclasses import replace
from typing import Any

import pytest

from demo.audit import Findings
from tests.demo.audit.sample import CLEAN, changes
from tests.demo.audit.world import World

FAULTS = {
    "lost",
    "doubled",
    "double_charges",
    "unfinished",
    "balance_error",
    "stock_balance_error",
    "unexplained_dead_letters",
}


def test_a_run_without_faults_is_clean_and_its_audit_changes_nothing(world: World) -> None:
    findings = world.audit()
    assert findings == world.audit() == CLEAN
    assert findings.clean
    assert findings.quarantined == 4


def test_a_run_without_effects_is_not_clean() -> None:
    assert not Findings(sent=0, distinct=0).clean


@pytest.mark.parametrize("name", sorted(vars(CLEAN).keys() - {"quarantined_by_reason", "samples"}))
def test_only_fault_figures_make_findings_unclean(name: str) -> None:
    figure: Any = {name: 100}
    assert replace(CLEAN, **figure).clean is (name not in FAULTS)


def test_deliveries_are_counted_from_the_log_lines_of_functions(world: World) -> None:
    world.log(
        "orders",
        'INFO {"message": "batch", "fates": {"committed": 3, "duplicate": 2}}',
        '{"fates": {"quarantined": 1}}',
        '{"message": "something else"}',
        "START {RequestId}",
        "{[1]}",
        "no JSON",
    )
    world.log("payments", '{"fates": {"committed": 10}}')
    assert changes(world.audit()) == {"deliveries": 16}


def test_all_pages_of_a_table_are_read(world: World) -> None:
    for number in range(4):
        world.put("orders", order_id=f"other-{number}", note="x" * 390_000)
    assert changes(world.audit()) == {"orders_stored": 4}
