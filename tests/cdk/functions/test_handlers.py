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

VARIABLES = {
    RELAY: [
        *("ONCE_DEAD_LETTER_URL", "ONCE_GROUPS", "ONCE_ORDERED_TOPIC_ARN", "ONCE_ORDERED_TYPES"),
        *("ONCE_PUBLISHES", "ONCE_SERVICE", "ONCE_TIME_MARGIN_MS", "ONCE_TOPIC_ARN"),
    ],
    UNROUTED: ["ONCE_ROUTES", "ONCE_UNROUTED_URL"],
}
in_lambda_and_elsewhere = pytest.mark.parametrize(
    "environment", [{"AWS_LAMBDA_FUNCTION_NAME": "once-function"}, {}], ids=["Lambda", "elsewhere"]
)


def load(name: str) -> Any:
    return runpy.run_path(str(functions.FOLDER / name / "handler.py"))["lambda_handler"]


def test_outside_lambda_the_module_loads_without_an_environment() -> None:
    assert all(callable(load(name)) for name in VARIABLES)


@pytest.mark.parametrize(("name", "variables"), VARIABLES.items())
def test_in_lambda_missing_variables_fail_the_load_and_are_all_named(
    monkeypatch: pytest.MonkeyPatch, name: str, variables: list[str]
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "once-function")
    with pytest.raises(SettingsError) as raised:
        load(name)
    assert sorted(raised.value.faults) == [f"{variable} is missing" for variable in variables]


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
