"""Message group ids: accepted by SNS, and equal for equal values of the field."""

import re
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given

from once.events.identity import message_group
from tests.once.events.json_values import TEXT

ACCEPTED_BY_SNS = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")


def hashed(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "group"),
    [
        ("c-17", "c-17"),
        ("x" * 128, "x" * 128),
        ("x" * 129, hashed("x" * 129)),
        ("two words", hashed("two words")),
        ("Zo\u00eb", hashed("Zo\u00eb")),
        ("Zoe\u0308", hashed("Zo\u00eb")),
        (17, "17"),
        (-1, "-1"),
        ("", None),
        (" ", None),
        (1.5, None),
        (True, None),
        (None, None),
        (2**53, None),
        ({"id": 1}, None),
    ],
)
def test_a_group_is_non_blank_text_or_a_whole_number(value: Any, group: str | None) -> None:
    assert message_group({"customer": {"id": value}}, "customer.id") == group


@pytest.mark.parametrize("data", [None, [], "c-17", {}, {"customer": None}])
def test_data_without_the_field_has_no_group(data: Any) -> None:
    assert message_group(data, "customer.id") is None


@given(TEXT.filter(str.strip))
def test_every_text_has_a_group_that_sns_accepts(text: str) -> None:
    group = message_group({"id": text}, "id")
    assert group is not None
    assert ACCEPTED_BY_SNS.fullmatch(group)
