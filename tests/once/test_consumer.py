"""A function's entry: it starts only if handlers, settings and environment agree."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from once import Consumer
from once.errors import RegistrationError, SettingsError
from once.settings import Settings
from once.testing import FakeContext
from tests.in_memory import Start
from tests.once.support import SETTINGS, Note, amounts, consumer_of, count, failures, note


@pytest.fixture
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "notes")
    return monkeypatch


def load(monkeypatch: pytest.MonkeyPatch, consumer: Consumer, settings: Settings) -> Any:
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)
    return consumer.lambda_handler


def test_in_lambda_a_missing_variable_fails_the_load(in_lambda: pytest.MonkeyPatch) -> None:
    in_lambda.delenv("ONCE_SETTINGS", raising=False)
    with pytest.raises(SettingsError, match="ONCE_SETTINGS is not set"):
        consumer_of().lambda_handler  # noqa: B018


def test_outside_of_lambda_only_a_call_needs_the_environment() -> None:
    handler = consumer_of().lambda_handler
    with pytest.raises(SettingsError, match="ONCE_SETTINGS is not set"):
        handler({"Records": []}, FakeContext())


def test_in_lambda_the_entry_handles_a_batch(in_lambda: pytest.MonkeyPatch, start: Start) -> None:
    handle = load(in_lambda, consumer_of(), start().runtime.settings)
    assert handle({"Records": []}, FakeContext()) == {"batchItemFailures": []}


WRAPPED = """
from once import Consumer
from tests.once.support import Note, count

other = Consumer("other")
consumer = Consumer("notes")
consumer.handles("noted", Note)(count)
for table in {tables}:
    consumer.table(table)

def lambda_handler(event, context):
    return consumer.lambda_handler(event, context)
"""


@pytest.mark.parametrize("tables", [("counters",), ("countres",)])
def test_in_lambda_an_entry_of_ones_own_is_checked_when_it_was_loaded(
    in_lambda: pytest.MonkeyPatch, tmp_path: Path, tables: tuple[str, ...]
) -> None:
    (tmp_path / "wrapped.py").write_text(WRAPPED.format(tables=tables))
    in_lambda.syspath_prepend(tmp_path)
    in_lambda.setattr("once.intake.registration._made", [])
    in_lambda.setenv("_HANDLER", "wrapped.lambda_handler")
    for name, value in SETTINGS.to_env().items():
        in_lambda.setenv(name, value)
    in_lambda.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    in_lambda.delitem(sys.modules, "wrapped", raising=False)
    module = importlib.import_module("wrapped")
    assert module.consumer.tables == {*tables}
    if tables == ("counters",):
        assert module.lambda_handler({"Records": []}, FakeContext()) == {"batchItemFailures": []}
    else:
        with pytest.raises(RegistrationError, match="'countres'"):
            module.lambda_handler  # noqa: B018


def bind(start: Start, changes: dict[str, Any], *types: str) -> Any:
    """Bind a consumer that handles these types as well to changed settings."""
    consumer = consumer_of()
    for event_type in types:
        consumer.handles(event_type, Note)(count)
    return consumer.bound_to(replace(start().runtime, settings=replace(SETTINGS, **changes)))


IN_THE_APP = "the declaration of 'notes' in the CDK app"
DISAGREEMENTS: list[tuple[dict[str, Any], tuple[str, ...], str]] = [
    (
        {"event_types": ("noted", "erased")},
        (),
        f"notes gets 'erased' and has no handler; add one, or take it out of {IN_THE_APP}",
    ),
    (
        {},
        ("erased",),
        "notes handles 'erased', which its queue never gets; "
        f"add it to external= or events= of {IN_THE_APP}",
    ),
    (
        {"tables": {}},
        (),
        f"notes uses the table 'counters', which it may not; add it to tables= of {IN_THE_APP}",
    ),
    (
        {"consumer": "orders"},
        (),
        "the handler is of 'notes', and the function is deployed for 'orders'",
    ),
]


@pytest.mark.parametrize(("changes", "types", "expected"), DISAGREEMENTS)
def test_a_disagreement_between_settings_and_handlers_is_rejected(
    start: Start, changes: dict[str, Any], types: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(RegistrationError) as raised:
        bind(start, changes, *types)
    assert raised.value.faults == (expected,)


def test_all_disagreements_are_reported_together(start: Start) -> None:
    changes = {"consumer": "orders", "tables": {}, "event_types": ("erased",)}
    with pytest.raises(RegistrationError) as raised:
        bind(start, changes)
    assert len(raised.value.faults) == 4


def test_a_batch_without_failures_uses_no_sqs_client(start: Start) -> None:
    aws = start()
    aws.runtime = replace(aws.runtime, sqs=cast("Any", None))
    assert failures(aws.deliver(note(), note())) == []
    assert amounts(aws) == {"a": 2}


def modules_of(*imports: str) -> int:
    """Return the number of modules that imports load besides boto3 with a client."""
    lines = (
        *("import sys, boto3", "boto3.client('dynamodb', 'us-east-1')", "before = {*sys.modules}"),
        *(*imports, "print(len({*sys.modules} - before))"),
    )
    return int(subprocess.check_output([sys.executable, "-c", "\n".join(lines)]))


def test_a_function_with_commands_loads_no_more_than_a_consumer() -> None:
    commands = ("from once.commands import handlers, http_door, scope",)
    assert modules_of(*commands) <= modules_of("import once.consumer")
