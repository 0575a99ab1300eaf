"""The function on the sweep queue, as Lambda loads it."""

import runpy
from typing import Any

import pytest

from once.cdk import functions
from once.errors import SettingsError
from once.schema import UNROUTED
from tests.once.outbox.sweeping import PLACED, SweepHarness, string

HANDLER = functions.FOLDER / UNROUTED / "handler.py"


def load() -> Any:
    return runpy.run_path(str(HANDLER))["lambda_handler"]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> SweepHarness:
    """A harness whose settings are this function's environment."""
    harness = SweepHarness()
    for name, value in harness.settings.to_env().items():
        monkeypatch.setenv(name, value)
    return harness


def test_on_a_laptop_the_module_loads_without_an_environment() -> None:
    assert callable(load())


def test_in_lambda_missing_variables_fail_the_load_and_are_all_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "once-unrouted")
    with pytest.raises(SettingsError) as raised:
        load()
    assert raised.value.faults == ("ONCE_ROUTES is missing", "ONCE_UNROUTED_URL is missing")


@pytest.mark.parametrize("in_lambda", ["yes", "no"])
def test_an_unrouted_event_reaches_the_unrouted_queue_and_no_other_does(
    harness: SweepHarness, monkeypatch: pytest.MonkeyPatch, in_lambda: str
) -> None:
    if in_lambda == "yes":
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "once-unrouted")
    harness.publish("lost")
    harness.publish("taken", type=string(PLACED))
    assert load()({"Records": harness.records()}, None) == {"batchItemFailures": []}
    assert [letter["Body"] for letter in harness.unrouted()] == ["lost"]
