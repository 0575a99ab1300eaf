"""The relay's function, as Lambda loads it."""

import json
import runpy
from typing import Any

import pytest

from once.cdk import functions
from once.errors import SettingsError
from once.schema import RELAY
from tests.once.outbox.relaying import RelayHarness, change, image, outgoing

HANDLER = functions.FOLDER / RELAY / "handler.py"


def load() -> Any:
    return runpy.run_path(str(HANDLER))["lambda_handler"]


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> RelayHarness:
    """A harness whose settings are this function's environment."""
    harness = RelayHarness()
    for name, value in harness.settings.to_env().items():
        monkeypatch.setenv(name, value)
    return harness


@pytest.fixture
def bare(harness: RelayHarness, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the variables, all of which are missing."""
    names = list(harness.settings.to_env())
    for name in names:
        monkeypatch.delenv(name)
    return names


@pytest.mark.usefixtures("bare")
def test_on_a_laptop_the_module_loads_without_an_environment() -> None:
    assert callable(load())


def test_in_lambda_missing_variables_fail_the_load_and_are_all_named(
    bare: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "once-outbox_relay")
    with pytest.raises(SettingsError) as raised:
        load()
    assert sorted(raised.value.faults) == sorted(f"{name} is missing" for name in bare)


@pytest.mark.parametrize("in_lambda", ["yes", "no"])
def test_a_change_in_the_stream_reaches_the_topic(
    harness: RelayHarness, monkeypatch: pytest.MonkeyPatch, in_lambda: str
) -> None:
    if in_lambda == "yes":
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "once-outbox_relay")
    handle, event = load(), outgoing(0)
    answer = handle({"Records": [change(image(event)), change(image())]}, harness.context)
    assert answer == {"published": {"counted": 1}, "dead_lettered": []}
    assert harness.published() == [event.body]


def test_what_cannot_be_published_reaches_the_dead_letters(harness: RelayHarness) -> None:
    load()({"Records": [change(image(outbox={"S": "{}"}))]}, harness.context)
    [letter] = harness.dead_letters()
    assert json.loads(letter["Body"]) == {}
