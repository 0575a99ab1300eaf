"""The audit of the order: each kind of damage, in either table, is counted."""

import pytest

from demo.scenarios import fifo as movements

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
    assert movements.count_dead_letters(SENT, letters) == figures
