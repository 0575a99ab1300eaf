"""Contenders with effects and kinds of models do their work, and a wrong one is detected."""

from typing import Any

import pytest

from benchmarks import effects
from benchmarks.batches import Setting, Wrong
from benchmarks.effects import ONCE, Provider, effect_rows, take
from benchmarks.models import model_rows
from tests.benchmarks.bench import MemoryServer

REQUESTS = {
    "Once": 0.2,
    "Once, async": 0.2,
    "Once, one a batch": 2,
    "Powertools": 3,
    "Powertools, async": 3,
    "raw, 10 threads": 1,
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("once.effects.calls._LEAST_PATIENCE", 10)  # a busy machine is slow


def test_every_contender_charges_and_stores_each_order_once() -> None:
    rows = list(effect_rows(MemoryServer(), 5, repeats=1, messages=10))
    assert {row["contender"]: row["requests_per_message"] for row in rows} == REQUESTS
    assert {row["kind"] for row in rows} == {"effects"}
    assert [r["vs_sequential"] for r in rows if r["records"] == 1] == [1]


@pytest.mark.parametrize("fault", ["under two keys", "never"])
def test_a_charge_that_is_not_made_once_is_detected(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(Provider):
        def charge(self, key: str, order: str) -> str:
            if fault == "under two keys":
                super().charge(f"{key} again", order)
                return super().charge(key, order)
            return ""

    monkeypatch.setattr(effects, "Provider", Faulty)
    with pytest.raises(Wrong, match="Once, calls of 5 ms: 0 failed, 20 orders and"):
        take(MemoryServer(), ONCE, 5, messages=10)


def test_each_kind_of_model_has_a_row() -> None:
    setting: Any = Setting(records=10, delay_ms=0, messages=10)
    rows = model_rows(MemoryServer(), 1, setting)
    assert [row["contender"] for row in rows] == [
        *("msgspec.Struct", "dataclass", "TypedDict", "NamedTuple", "attrs", "pydantic")
    ]
    assert rows[0]["cpu_vs_struct"] == 1
    assert {row["requests"] for row in rows} == {0.1}
