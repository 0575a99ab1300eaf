"""Letters of one failure have the same error pattern, which is short and printable."""

import pytest
from hypothesis import given

from once.ops.dead_letters.search import MOST_CHARACTERS, NO_ERROR, error_pattern
from tests.ops.hostile import quick, texts


@pytest.mark.parametrize(
    ("error", "pattern"),
    [
        ("Unexpected: KeyError at meet:41: 'sku'", "Unexpected: KeyError at meet:…: 'sku'"),
        ("order 6e1c9f0a-77aa-4b11: 3.50 EUR at 2026-11-22T08:00:00Z", "order …: … EUR at …"),
        ("first\nsecond 2", "first"),
        ("a\x1b[31m", "a\\…[…"),
        ("x" * 1000, "x" * (MOST_CHARACTERS - 1) + "…"),
        (None, NO_ERROR),
        (" ", NO_ERROR),
    ],
)
def test_pattern_has_no_ids_and_numbers(error: str | None, pattern: str) -> None:
    assert error_pattern(error) == pattern


@quick
@given(texts)
def test_pattern_of_a_pattern_is_itself(error: str) -> None:
    pattern = error_pattern(error)
    assert error_pattern(pattern) == pattern
    assert pattern.isprintable()
    assert len(pattern) <= MOST_CHARACTERS
