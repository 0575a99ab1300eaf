"""The audit where all went well, where nothing happened, and what makes its findings clean."""

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
OTHERS = vars(CLEAN).keys() - FAULTS - {"quarantined_by_reason"}


def test_where_all_went_well_it_is_clean(world: World) -> None:
    findings = world.audit()
    assert findings == CLEAN
    assert findings.clean
    assert findings.quarantined == 4


def test_nothing_at_all_is_not_clean() -> None:
    assert not Findings(sent=0, distinct=0).clean


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_fault_is_not_clean(name: str) -> None:
    fault: Any = {name: 1}
    assert not replace(CLEAN, **fault).clean


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_no_other_figure_is_a_fault(name: str) -> None:
    figure: Any = {name: 100}
    assert replace(CLEAN, **figure).clean


def test_an_audit_leaves_everything_as_it_was(world: World) -> None:
    assert world.audit() == world.audit() == CLEAN


def test_deliveries_are_counted_from_what_the_functions_log(world: World) -> None:
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


def test_a_table_of_several_pages_is_read_to_its_end(world: World) -> None:
    for number in range(4):
        world.put("orders", order_id=f"other-{number}", note="x" * 390_000)
    assert changes(world.audit()) == {"orders_stored": 4}
