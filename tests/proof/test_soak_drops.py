"""Which calls are cut off: by the seed, in the shares asked for, and some of them twice."""

from collections import Counter

import pytest

from proof.soak.drops import Drop, Drops

SHARES = {Drop.ANSWER_LOST: 0.03, Drop.REFUSED: 0.02, Drop.LATE: 0.01}
CALLS = [f"call-{n}" for n in range(10_000)]


def drawn(drops: Drops, *, again: bool = False) -> dict[str, Drop]:
    found = {call: drops.drawn(call, again=again) for call in CALLS}
    return {call: drop for call, drop in found.items() if drop is not None}


def test_the_seed_decides() -> None:
    assert drawn(Drops(7, SHARES)) == drawn(Drops(7, SHARES))
    assert drawn(Drops(7, SHARES)) != drawn(Drops(8, SHARES))


def test_each_way_has_its_share() -> None:
    counted = Counter(drawn(Drops(7, SHARES)).values())
    assert counted == {
        Drop.ANSWER_LOST: pytest.approx(300, rel=0.2),
        Drop.REFUSED: pytest.approx(200, rel=0.2),
        Drop.LATE: pytest.approx(100, rel=0.2),
    }


def test_half_of_the_retries_meet_what_the_first_attempt_met() -> None:
    first, again = drawn(Drops(7, SHARES)), drawn(Drops(7, SHARES), again=True)
    assert again.items() < first.items()
    assert len(again) == pytest.approx(len(first) / 2, rel=0.2)


@pytest.mark.parametrize(("stubborn", "share"), [(0, 0), (1, 1)])
def test_all_or_none_of_the_retries_get_through(stubborn: float, share: float) -> None:
    drops = Drops(7, SHARES, stubborn=stubborn)
    assert len(drawn(drops, again=True)) == share * len(drawn(drops))
