"""Traffic is sent until enough faults have occurred, and not for ever."""

from io import StringIO

import pytest
from rich.console import Console

from demo import rounds

MINIMUM = {"killed": 8, "resent": 1, "audited": 100}


@pytest.mark.parametrize(
    ("before", "a_round", "sent", "said"),
    [
        (0, 12, 1, ""),
        (0, 4, 2, ""),
        (0, 1, 8, ""),
        (8, 0, 0, ""),
        (0, 0.5, 10, "killed is 5.0, and must be 8: 10 rounds of traffic brought no more"),
    ],
    ids=["enough", "a fast machine", "a tenth of the delays", "enough before", "never enough"],
)
def test_rounds_are_sent_until_the_faults_are_enough(
    before: float, a_round: float, sent: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = StringIO()
    monkeypatch.setattr("demo.rounds.console", Console(file=paper, width=200))
    found = rounds.send_rounds(
        lambda number: (number, a_round),
        lambda done: {"killed": before + sum(killed for _, killed in done), "resent": 9},
        MINIMUM,
        most=10,
    )
    assert [number for number, _ in found] == [*range(sent)]
    printed = paper.getvalue().splitlines()
    assert [line for line in printed if not line.startswith("round ")] == [said] * bool(said)
