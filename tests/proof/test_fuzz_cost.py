"""The cost of reading is measured as a ratio, which is high where reading takes quadratic time."""

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from unittest.mock import patch

import pytest

from once.errors import OnceError
from once.events import strict_json
from proof.fuzz import cost, messages
from proof.fuzz.cost import MAX_RATIO, Cost, Reading, fault_of, figures
from proof.fuzz.families import ENVELOPES, FAMILIES, PLAIN
from proof.fuzz.reading import READERS, delivered, error_of

SIZE = 32 * 1024
MEASURED = 512 * 1024


FAIR = Cost(kind="claim", family="a", bytes=9, accepted=True, ratio=20, memory_ratio=20)


def measured(family: str, size: int, kind: str = "message") -> Cost:
    [found] = cost.costs([(kind, family, size)])
    return found


def bytes_of(message: messages.Message) -> int:
    attributes = message["messageAttributes"].values()
    values = [one.get("stringValue", one.get("binaryValue", "")) for one in attributes]
    return sum(len(text.encode()) for text in [message["body"], *values])


def refusal(message: messages.Message) -> OnceError | None:
    return error_of(delivered(READERS["orders"], message))


@pytest.mark.parametrize("size", cost.SIZES)
def test_a_plain_message_is_an_accepted_order(size: int) -> None:
    message = PLAIN(size)
    assert size - 100 < bytes_of(message) <= size
    assert len(json.loads(message["body"])["data"]["lines"]) > size / 100
    assert refusal(message) is None


def test_a_message_has_the_requested_size_and_is_not_refused_for_it() -> None:
    for family, make in FAMILIES.items():
        message = make(SIZE)
        assert SIZE / 3 < bytes_of(message) < 1.5 * SIZE or "inflates" in family
        too_many = "objects and arrays in" in str(refusal(message))
        assert too_many == family.startswith("too many")
        assert too_many or "at most" not in str(refusal(message))


def test_no_family_costs_much_more_than_a_plain_message() -> None:
    found = cost.costs(("message", family, SIZE) for family in FAMILIES)
    assert {one.family for one in found} == FAMILIES.keys() > ENVELOPES.keys()
    assert [one for one in found if one.ratio > MAX_RATIO] == []


def test_a_run_that_something_else_slowed_down_is_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([99.0, 1.0] * 3 + [2.0, 1.0])
    monkeypatch.setattr(
        cost, "_sample", lambda _: Reading(accepted=True, seconds=next(seconds), bytes=0)
    )
    assert measured("exponents", SIZE).ratio == 2.0


def measured_apart(family: str, *, limited: bool = True) -> Cost:
    """Return a cost from a new process: memory that this one has freed would hide its growth."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(large_cost, family, limited=limited).result()


def large_cost(family: str, *, limited: bool) -> Cost:
    containers = strict_json._check_containers if limited else lambda *_: None
    with patch.object(strict_json, "_check_containers", containers):
        return measured(family, MEASURED, "claim")


def test_a_body_at_the_limit_of_containers_costs_no_more_than_is_published() -> None:
    found = measured_apart("nested objects, in the slow form")
    assert found.accepted
    assert found.memory > 1
    assert fault_of(found) is None


def test_without_a_limit_of_containers_a_body_costs_more_than_is_published() -> None:
    found = measured_apart("too many nested arrays, in the slow form", limited=False)
    assert found.accepted
    assert "bytes of memory for each" in str(fault_of(found)) or found.ratio > MAX_RATIO


def test_a_cost_over_a_bound_is_a_fault() -> None:
    assert fault_of(FAIR) is None
    assert "20.1 times the CPU time" in str(fault_of(replace(FAIR, ratio=20.1)))
    assert "20.1 times the memory" in str(fault_of(replace(FAIR, memory_ratio=20.1)))
    assert "99 bytes of memory" in str(fault_of(replace(FAIR, memory=99)))


def test_a_quadratic_normaliser_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("once.events.strict_json._check_combining", lambda *_: None)
    monkeypatch.setattr(cost, "_MOST", 1)
    assert measured("marks of two classes", SIZE).ratio > MAX_RATIO


def test_the_report_shows_the_slowest_accepted_and_the_slowest_refused_message() -> None:
    found = [
        Cost(family="a", bytes=1, accepted=True, ratio=2.0),
        Cost(family="b", bytes=2, accepted=True, ratio=3.0),
        Cost(family="c", bytes=3, accepted=False, ratio=1.5, memory=30.0, memory_ratio=4.0),
    ]
    shown = figures(found)
    assert shown == {
        "slowest_ratio": 3.0,
        "memory_ratio": 4.0,
        "memory": 30.0,
        "slowest_accepted": asdict(found[1]),
        "slowest_refused": asdict(found[2]),
    }
