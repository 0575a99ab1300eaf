"""The function's entry: handlers, settings and environment agree, or nothing starts."""

from dataclasses import replace
from typing import Any

import pytest

from once import Consumer
from once.errors import RegistrationError, SettingsError
from once.settings import Settings, TableSettings
from once.testing import FakeContext
from tests.in_memory import Start
from tests.once.support import Note, consumer_of, count

SETTINGS = Settings(
    consumer="notes",
    event_types=("noted",),
    queue_url="https://queue",
    dead_letter_url="https://dead",
    dedup_table="dedup",
    tables={"counters": TableSettings("counters", ("name",))},
    dedup_window_seconds=86400,
)


def with_settings(**changes: Any) -> Settings:
    return Settings(**{n: getattr(SETTINGS, n) for n in Settings.__slots__} | changes)


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "notes")
    return monkeypatch


def load(monkeypatch: pytest.MonkeyPatch, consumer: Consumer, settings: Settings) -> Any:
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)
    return consumer.lambda_handler


def test_in_lambda_a_missing_variable_fails_the_load(in_lambda: pytest.MonkeyPatch) -> None:
    for name in SETTINGS.to_env():
        in_lambda.delenv(name, raising=False)
    with pytest.raises(SettingsError) as raised:
        consumer_of().lambda_handler  # noqa: B018
    assert len(raised.value.faults) == len(SETTINGS.to_env())


def test_on_a_laptop_the_module_loads_without_an_environment() -> None:
    assert callable(consumer_of().lambda_handler)


def test_on_a_laptop_a_call_without_an_environment_fails() -> None:
    with pytest.raises(SettingsError, match="ONCE_QUEUE_URL is missing"):
        consumer_of().lambda_handler({"Records": []}, FakeContext())


def test_in_lambda_the_entry_works_on_a_batch(in_lambda: pytest.MonkeyPatch, start: Start) -> None:
    aws = start()
    handle = load(in_lambda, consumer_of(), aws.runtime.settings)
    assert handle({"Records": []}, FakeContext()) == {"batchItemFailures": []}


def test_in_lambda_settings_of_another_consumer_fail_the_load(
    in_lambda: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RegistrationError, match="the handler is of 'notes'"):
        load(in_lambda, consumer_of(), with_settings(consumer="orders"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"event_types": ("noted", "erased")},
            "notes gets 'erased' and has no handler; add one, or take it out of "
            "the declaration of 'notes' in the CDK app",
        ),
        (
            {"tables": {}},
            "notes uses the table 'counters', which it may not; add it to tables= of "
            "the declaration of 'notes' in the CDK app",
        ),
        (
            {"consumer": "orders"},
            "the handler is of 'notes', and the function is deployed for 'orders'",
        ),
    ],
)
def test_what_settings_and_handlers_say_differently_is_refused(
    start: Start, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(RegistrationError) as raised:
        _bind(start, changes)
    assert raised.value.faults == (expected,)


def test_a_type_that_the_queue_never_gets_is_refused(start: Start) -> None:
    consumer = consumer_of()
    consumer.handles("erased", Note)(count)
    with pytest.raises(RegistrationError) as raised:
        _bind(start, {}, consumer)
    assert raised.value.faults == (
        "notes handles 'erased', which its queue never gets; add it to external= or events= of "
        "the declaration of 'notes' in the CDK app",
    )


def test_all_disagreements_are_reported_together(start: Start) -> None:
    changes = {"consumer": "orders", "tables": {}, "event_types": ("erased",)}
    with pytest.raises(RegistrationError) as raised:
        _bind(start, changes)
    assert len(raised.value.faults) == 4


def test_a_table_that_no_handler_uses_is_no_fault(start: Start) -> None:
    tables = {**SETTINGS.tables, "spare": TableSettings("spare", ("id",))}
    assert callable(_bind(start, {"tables": tables}))


def _bind(start: Start, changes: dict[str, Any], consumer: Consumer | None = None) -> Any:
    runtime = replace(start().runtime, settings=with_settings(**changes))
    return (consumer or consumer_of()).bound_to(runtime)
