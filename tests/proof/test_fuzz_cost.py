"""The cost of reading: measured as a ratio, and high where an input takes quadratic time."""

import json
from typing import Any

import pytest

from once.errors import OnceError
from proof.fuzz import cost, messages
from proof.fuzz.cost import MOST, Cost, figures
from proof.fuzz.families import FAMILIES, plain
from tests.proof import broken

SIZE = 32 * 1024


def measured(family: str, size: int = SIZE) -> float:
    return cost.cost(family, FAMILIES[family], size).ratio


def bytes_of(message: messages.Message) -> int:
    texts = [message["body"], *(text for _, text in message["attributes"].values())]
    return sum(len(text.encode()) for text in texts)


def refusal(message: messages.Message) -> OnceError | None:
    return cost.handled(cost._record(message))


def test_a_plain_message_is_an_order_that_is_read() -> None:
    for size in cost.SIZES:
        message = plain(size)
        assert size - 100 < bytes_of(message) <= size
        assert len(json.loads(message["body"])["data"]["lines"]) > size / 100
        assert refusal(message) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_grows_to_its_size_and_says_nothing_of_it_in_its_refusal(family: str) -> None:
    for size in (SIZE, 4 * SIZE):
        message = FAMILIES[family](size)
        assert size / 3 < bytes_of(message) < 1.5 * size or "inflates" in family
        assert "at most" not in str(refusal(message))


def test_what_is_within_a_sound_order_is_read_or_refused_for_itself() -> None:
    accepted = [name for name, grow in FAMILIES.items() if refusal(grow(SIZE)) is None]
    assert len(accepted) > 30
    assert {"decomposed letters", "nested arrays", "many names", "exponents"} <= set(accepted)


def test_no_family_costs_much_more_than_a_plain_message() -> None:
    found = list(cost.costs(sizes=[SIZE]))
    assert len(found) == len(FAMILIES)
    assert [one for one in found if one.ratio > MOST] == []


def test_a_quadratic_normaliser_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_RUNS", 1)
    monkeypatch.setattr("once.events.strict_json._check_combining", broken.nothing)
    assert measured("marks of two classes") > MOST


def test_a_key_that_is_composed_before_it_is_measured_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("once.events.strict_json._check_combining", broken.nothing)
    monkeypatch.setattr("once.intake.reader.fingerprint", lambda *_, **__: "f")
    assert measured("marks in an id", SIZE // 2) < 1
    monkeypatch.setattr("once.events.dedup_key._MOST_CHARACTERS", 10**9)
    assert measured("marks in an id", SIZE // 2) > 2


def test_the_report_names_the_slowest_of_both_kinds() -> None:
    found = [
        Cost(family="a", bytes=1, accepted=True, ratio=2.0),
        Cost(family="b", bytes=2, accepted=True, ratio=3.0),
        Cost(family="c", bytes=3, accepted=False, ratio=1.5),
    ]
    expected: dict[str, Any] = {"family": "b", "bytes": 2, "accepted": True, "ratio": 3.0}
    assert figures(found)["slowest_ratio"] == 3.0
    assert figures(found)["slowest_accepted"] == expected
    assert figures(found)["slowest_refused"]["family"] == "c"
