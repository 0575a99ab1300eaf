"""The audit of the order: each kind of damage, in either table, is counted."""

from random import Random

import pytest

from demo.scenarios.fifo import movements

SENT = [
    movements.Movement("a", 0, fails=False, readable=True),
    movements.Movement("b", 0, fails=True, readable=True),
    movements.Movement("a", 1, fails=False, readable=False),
    movements.Movement("a", 2, fails=False, readable=True),
    movements.Movement("a", 3, fails=False, readable=True),
]
GOOD = {"a": [0, 2, 3], "b": [0]}


def _figures(**wrong: int) -> dict[str, int]:
    return {"out_of_order": 0, "lost": 0, "doubled": 0, "invented": 0, **wrong}


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (GOOD, {}),
        ({"a": [0, 3, 2], "b": [0]}, {"out_of_order": 1}),
        ({"a": [0, 2]}, {"lost": 2}),
        ({"a": [0, 2, 3, 2], "b": [0]}, {"doubled": 1, "out_of_order": 1}),
        ({"a": [0, 1, 2, 3], "b": [0]}, {"invented": 1}),
    ],
)
def test_damage_in_one_table_is_counted(found: dict[str, list[int]], wrong: dict[str, int]) -> None:
    assert movements.count_order(SENT, [GOOD, found]) == _figures(**wrong)


@pytest.mark.parametrize(
    ("letters", "missing", "unexplained"),
    [(["a-1"], 0, 0), ([], 1, 0), (["a-1", "a-1"], 0, 1), (["a-2"], 1, 1)],
    ids=["each once", "none", "two copies", "another in its place"],
)
def test_dead_letters_are_those_of_the_movements_that_cannot_be_read(
    letters: list[str], missing: int, unexplained: int
) -> None:
    figures = {"missing_dead_letters": missing, "unexplained_dead_letters": unexplained}
    assert movements.count_letters(SENT, letters) == figures


def test_movements_are_numbered_in_the_order_in_which_they_are_sent() -> None:
    plan = movements.MovementPlan.draw(Random(1))
    numbers: dict[str, list[int]] = {}
    for each in plan.movements:
        numbers.setdefault(each.account, []).append(each.number)
    assert all(found == list(range(movements.PER_ACCOUNT)) for found in numbers.values())


def test_what_is_sent_again_is_readable_and_comes_with_the_same_id_or_another() -> None:
    plan = movements.MovementPlan.draw(Random(1))
    again = plan.messages[len(plan.movements) :]
    assert {*(each for each, _ in again)} < {each for each in plan.movements if each.readable}
    same = [unique == each.event_id for each, unique in again]
    assert same.count(True) == len(plan.within_window) > 0
    assert same.count(False) == len(plan.after_window) > 0
