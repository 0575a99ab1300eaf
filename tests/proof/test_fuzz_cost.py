"""The cost of reading is measured as a ratio, which is high where reading takes quadratic time."""

import json

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.errors import OnceError
from proof.fuzz import cost, messages
from proof.fuzz.cost import MAX_RATIO, Cost, figures
from proof.fuzz.envelope_families import ENVELOPES
from proof.fuzz.families import FAMILIES, PLAIN
from proof.fuzz.parsers.intake import READERS

SIZE = 32 * 1024


def bytes_of(message: messages.Message) -> int:
    texts = [message["body"], *(text for _, text in message["attributes"].values())]
    return sum(len(text.encode()) for text in texts)


def refusal(message: messages.Message) -> OnceError | None:
    return cost.read(SQSRecord(messages.record(message)), READERS["orders"])


@pytest.fixture
def unlimited_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("once.events.strict_json._check_combining", lambda *_: None)


@pytest.mark.parametrize("size", cost.SIZES)
def test_a_plain_message_is_an_accepted_order(size: int) -> None:
    message = PLAIN(size)
    assert size - 100 < bytes_of(message) <= size
    assert len(json.loads(message["body"])["data"]["lines"]) > size / 100
    assert refusal(message) is None


@pytest.mark.parametrize("family", cost.FAMILIES)
def test_a_message_has_the_requested_size_and_is_not_refused_for_it(family: str) -> None:
    for size in (SIZE, 4 * SIZE):
        message = cost.FAMILIES[family](size)
        assert size / 3 < bytes_of(message) < 1.5 * size or "inflates" in family
        assert "at most" not in str(refusal(message))


def test_many_families_are_accepted_orders() -> None:
    accepted = [name for name, grow in FAMILIES.items() if refusal(grow(SIZE)) is None]
    assert len(accepted) > 30
    assert {"decomposed letters", "nested arrays", "many names", "exponents"} <= set(accepted)


def test_no_family_costs_much_more_than_a_plain_message() -> None:
    found = list(cost.costs(sizes=[SIZE]))
    assert len(found) == len(FAMILIES) + len(ENVELOPES)
    assert [one for one in found if one.ratio > MAX_RATIO] == []


@pytest.mark.usefixtures("unlimited_marks")
def test_a_quadratic_normaliser_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_REPEATS", 1)
    assert cost.cost("marks of two classes", SIZE).ratio > MAX_RATIO


@pytest.mark.usefixtures("unlimited_marks")
def test_a_key_that_is_normalised_before_it_is_measured_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("once.intake.reader.fingerprint", lambda *_, **__: "f")
    assert cost.cost("marks in an id", SIZE // 2).ratio < 1
    monkeypatch.setattr("once.events.dedup_key._MOST_CHARACTERS", 10**9)
    assert cost.cost("marks in an id", SIZE // 2).ratio > 2


def test_the_report_shows_the_slowest_accepted_and_the_slowest_refused_message() -> None:
    found = [
        Cost(family="a", bytes=1, accepted=True, ratio=2.0),
        Cost(family="b", bytes=2, accepted=True, ratio=3.0),
        Cost(family="c", bytes=3, accepted=False, ratio=1.5),
    ]
    assert figures(found) == {
        "slowest_ratio": 3.0,
        "slowest_accepted": {"family": "b", "bytes": 2, "accepted": True, "ratio": 3.0},
        "slowest_refused": {"family": "c", "bytes": 3, "accepted": False, "ratio": 1.5},
    }
