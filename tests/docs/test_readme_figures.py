"""The README's figures of other ways to handle a message are those that were measured."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
MEASURED = (ROOT / "docs" / "performance.md").read_text()


def wall_at_5_ms(contender: str) -> str:
    """Return the ratio to a raw transaction, ten records a batch, 5 ms an answer."""
    table = MEASURED.split("<!-- measured: begin -->")[1].split("\n\n")[1]
    (ratio,) = re.findall(rf"^\| {contender} \| [\d.]+ \| ([\d.]+) \|", table, re.MULTILINE)
    return str(ratio)


@pytest.mark.parametrize(
    ("row", "contender"),
    [
        ("| Powertools' idempotency |", "Powertools"),
        ("| **Once**, ten a commit |", "Once, grouped"),
    ],
)
def test_a_ratio_is_the_one_that_was_measured(row: str, contender: str) -> None:
    (line,) = (line for line in README.splitlines() if line.startswith(row))
    (ratio,) = re.findall(r"([\d.]+) × a transaction's time", line)
    assert ratio == wall_at_5_ms(contender)
