"""The handlers of the relay and of the unrouted queue, loaded as Lambda loads them."""

import runpy
from typing import Any

import pytest

from once.cdk import functions
from once.errors import SettingsError
from once.names import RELAY, UNROUTED
from tests.once.outbox.relaying import (
    PLACED,
    RelayHarness,
    SweepHarness,
    change,
    image,
    outgoing,
    string,
)

FAULTS = {RELAY: 4, UNROUTED: 2}
"""The settings of each function that have no default."""
in_lambda_and_elsewhere = pytest.mark.parametrize(
    "environment", [{"AWS_LAMBDA_FUNCTION_NAME": "once-function"}, {}], ids=["Lambda", "elsewhere"]
)


def load(name: str) -> Any:
    return runpy.run_path(str(functions.FOLDER / name / "handler.py"))["lambda_handler"]


def test_outside_lambda_the_module_loads_without_an_environment() -> None:
    assert all(callable(load(name)) for name in FAULTS)


@pytest.mark.parametrize(("name", "faults"), FAULTS.items())
def test_in_lambda_missing_settings_fail_the_load_and_are_all_named(
    monkeypatch: pytest.MonkeyPatch, name: str, faults: int
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "once-function")
    monkeypatch.setenv("ONCE_SETTINGS", '{"version": 1}')
    with pytest.raises(SettingsError) as raised:
        load(name)
    assert len(raised.value.faults) == faults


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> RelayHarness:
    """A relay harness whose settings are the relay's environment."""
    harness = RelayHarness()
    for name, value in harness.settings.to_env().items():
        monkeypatch.setenv(name, value)
    return harness


@in_lambda_and_elsewhere
def test_a_change_in_the_stream_reaches_the_topic(
    harness: RelayHarness, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    event = outgoing(0)
    answer = load(RELAY)({"Records": [change(image(event)), change(image())]}, harness.context)
    assert answer == {"published": {"counted": 1}, "dead_lettered": []}
    assert harness.published() == [event.body]


@in_lambda_and_elsewhere
def test_only_an_unrouted_event_reaches_the_unrouted_queue(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    harness = SweepHarness()
    for name, value in (harness.settings.to_env() | environment).items():
        monkeypatch.setenv(name, value)
    harness.publish("lost")
    harness.publish("taken", type=string(PLACED))
    assert load(UNROUTED)({"Records": harness.records()}, None) == {"batchItemFailures": []}
    assert [letter["Body"] for letter in harness.unrouted()] == ["lost"]
