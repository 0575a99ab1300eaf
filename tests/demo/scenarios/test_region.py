"""The audit of two Regions: each kind of damage, in either one, is counted."""

import pytest

from demo.scenarios.region import Applied, Round, count_changes

SENT = [Round(["b-1", "b-2"], [("a-1", 1, False)]), Round(["b-3"], [("a-1", 2, True)])]
GOOD: Applied = {
    "bookings": ["b-1", "b-2", "b-3"],
    "accounts": ["1", "2"],
    "statements": ["2", "1"],
}


@pytest.mark.parametrize(
    ("there", "wrong"),
    [
        (GOOD, {}),
        ({**GOOD, "bookings": ["b-1", "b-3"]}, {"lost": 1, "differing": 1}),
        ({**GOOD, "accounts": ["1", "2", "2"]}, {"doubled": 1, "differing": 1}),
        ({**GOOD, "statements": ["1", "2", "3"]}, {"invented": 1, "differing": 1}),
    ],
)
def test_damage_in_one_region_is_counted(there: Applied, wrong: dict[str, int]) -> None:
    clean = dict.fromkeys(("lost", "doubled", "invented", "differing"), 0)
    assert count_changes(SENT, [GOOD, there]) == {**clean, **wrong}


def test_the_same_damage_in_both_regions_is_counted_in_both() -> None:
    doubled = {**GOOD, "bookings": [*GOOD["bookings"], "b-1"]}
    figures = count_changes(SENT, [doubled, doubled])
    assert (figures["doubled"], figures["differing"]) == (2, 0)
