"""Registration of commands, and its checks against the deployment."""

from typing import Any, cast

import pytest

from once import Commands, Refusal, Scope, Transaction
from once.commands.runner import CommandRuntime
from once.errors import RegistrationError, SettingsError
from once.settings import CommandSettings, Dedup
from tests.once.commands.shop import OrderId

SETTINGS: dict[str, Any] = {
    "consumer": "small",
    "commands": ("do",),
    "dedup_table": "dedup",
    "tables": {},
    "dedup_window_seconds": 60,
}


def do(command: OrderId, tx: Transaction) -> str:
    return command.order_id


def small(name: str = "small", command: str = "do", **more: Any) -> Commands:
    commands = Commands(name)
    commands.handles(command, more.pop("model", OrderId), **more)(do)
    return commands


def bound(api: Commands, /, **settings: Any) -> None:
    found = CommandSettings(**{**SETTINGS, **settings})
    api.bound_to(CommandRuntime(found, cast("Any", None), cast("Any", None)))


def twice() -> Commands:
    commands = small()
    commands.handles("do", OrderId)(lambda command, tx: None)
    return commands


def with_table() -> Commands:
    commands = small()
    commands.table("orders")
    return commands


def with_rejection(refusal: Any) -> Commands:
    commands = small()
    commands.rejects(refusal)(do)  # type: ignore[arg-type]
    return commands


def with_two_rejections() -> Commands:
    commands = small()
    for function in (lambda command, refusal, tx: None, lambda command, refusal, tx: "no"):
        commands.rejects(Refusal)(function)
    return commands


FAULTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "another name": (lambda: small("other"), {}, "deployed for 'small'"),
    "a name that is none": (lambda: small("Small-API"), {}, "does not match"),
    "nothing": (lambda: Commands("small"), {"commands": ()}, "handles nothing"),
    "a command that is not declared": (
        small,
        {"commands": ()},
        "'do' is .* alone; .* a place in commands= of the declaration of 'small' in the CDK app",
    ),
    "a command without a handler": (small, {"commands": ("do", "x")}, "'x' is handled or declared"),
    "two functions": (twice, {}, "both handle 'do'"),
    "no model": (lambda: small(model=int), {}, "is no model"),
    "a volatile field that is none": (lambda: small(volatile=("x",)), {}, "the field 'x'"),
    "a table that is not declared": (
        with_table,
        {},
        "uses the table 'orders'.*declaration of 'small' in the CDK app",
    ),
    "two rejections": (with_two_rejections, {}, "both handle 'Refusal'"),
    "a refusal that is no class": (lambda: with_rejection(7), {}, "derive it from once.Refusal"),
    "no refusal": (lambda: with_rejection(ValueError), {}, "derive it from once.Refusal"),
    "a rejection of two arguments": (lambda: with_rejection(Refusal), {}, "three arguments"),
    "records on items": (small, {"dedup": Dedup.ITEM}, "Dedup.RECORD"),
}


@pytest.mark.parametrize(("make", "settings", "text"), FAULTS.values(), ids=FAULTS)
def test_a_mistake_is_named_with_its_remedy(make: Any, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        bound(make(), **settings)


def test_a_consistent_registration_is_accepted() -> None:
    bound(small())


def test_the_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="ONCE_SETTINGS is not set"):
        small().run("do", {"order_id": "a"}, key="k", scope="s")
    for name, value in CommandSettings(**SETTINGS).to_env().items():
        monkeypatch.setenv(name, value)
    assert small().runner.runtime.settings == CommandSettings(**SETTINGS)


def test_a_deployed_function_finds_mistakes_when_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "small")
    with pytest.raises(SettingsError):
        small().http({"POST /do": "do"}, scope=Scope.public())
