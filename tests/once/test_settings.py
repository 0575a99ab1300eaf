"""Settings: written by the infrastructure as one variable, and read by the function."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from msgspec.structs import fields

from once.cdk.checks.consumer_props import START_SECONDS
from once.cdk.checks.deployment_config import message_life_days
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import DAY_SECONDS
from once.effects.workflow_starts import ONE_ATTEMPT
from once.errors import SettingsError
from once.event_sources import Source
from once.names import Limits
from once.settings import (
    Dedup,
    Environment,
    RelaySettings,
    ScheduleSettings,
    Settings,
    SweepSettings,
    TableSettings,
    Text,
    bare_type,
    meaning,
)
from once.webhooks.endpoint import WebhookSettings
from tests.in_memory import Start
from tests.once.support import SETTINGS, amounts, consumer_of, failures, note, quick
from tests.ops.support import stderr_of, stdout_of

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
WORDS = st.lists(WORD, max_size=3).map(tuple)
TABLE = st.builds(TableSettings, name=WORD, key=st.lists(WORD, min_size=1, max_size=2).map(tuple))
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    str: WORD,
    Text | None: st.none() | WORD,
    int: st.integers(1, 10),  # in every range
    bool: st.booleans(),
    Dedup: st.sampled_from(Dedup),
    tuple[Text, ...]: WORDS,
    Mapping[Text, Text]: st.dictionaries(WORD, WORD, max_size=2),
    Mapping[Text, tuple[Text, ...]]: st.dictionaries(WORD, WORDS, max_size=2),
    Mapping[Text, TableSettings]: st.dictionaries(WORD, TABLE, max_size=2),
    ScheduleSettings | None: st.none() | st.builds(ScheduleSettings, WORD, WORD, WORD),
    Source | None: st.none() | st.builds(Source.event_bridge, WORD, bus=WORD),
}
GIVEN: dict[str, Any] = json.loads(SETTINGS.to_env()["ONCE_SETTINGS"])


@pytest.mark.parametrize("kind", [Settings, RelaySettings, SweepSettings])
@quick
@given(st.data())
def test_settings_that_are_written_are_read_back(
    kind: type[Environment], data: st.DataObject
) -> None:
    given = {each.name: data.draw(FIELDS[bare_type(each)]) for each in fields(kind)}
    if later := given.get("publishes_later"):
        given["publishes_later"] = tuple({*later} - {*given["ordered_types"]})
    settings = kind(**given)
    assert kind.from_env(settings.to_env()) == settings


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SETTINGS.to_env(), "ONCE_UPON": "a time"}.items():
        monkeypatch.setenv(name, value)
    assert Settings.from_env() == SETTINGS


def test_values_that_are_the_defaults_are_left_out() -> None:
    required = [each.name for each in fields(Settings) if each.default is each.default_factory]
    assert GIVEN.keys() == {"version", *required}


def faults(kind: type[Environment], given: object) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as raised:
        kind.of_json(given if isinstance(given, str) else json.dumps(given))
    return raised.value.faults


def test_all_faults_are_reported_together_with_the_remedy() -> None:
    given = {**GIVEN, "tables": [], "max_body_bytes": "many", "que_url": "https://queue"}
    del given["queue_url"]
    assert faults(Settings, given) == (
        "tables: Expected `object`, got `array`; set the business tables it writes, by the names "
        "that its handlers use: `name` is the physical name, `key` lists the attributes of the "
        "primary key",
        "max_body_bytes: Expected `int`, got `str`; set the largest body that is read, also from "
        "the claim-check bucket",
        "queue_url: it is missing; set the URL of the queue that it reads",
        "que_url: there is no such setting; correct its name, or leave it out",
    )
    assert len(faults(RelaySettings, {"version": 1, "service": "once"})) == 3


def test_a_type_that_is_published_later_has_no_order() -> None:
    given = {**GIVEN, "publishes_later": ["counted", "noted"], "ordered_types": ["counted"]}
    [fault] = faults(Settings, given)
    assert fault.startswith("publishes_later: counted is ordered, and EventBridge Scheduler keeps")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": "1"}'])
def test_another_text_or_version_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"ONCE_SETTINGS|version is"):
        Settings.from_env({"ONCE_SETTINGS": text})


@pytest.mark.parametrize("kind", [Settings, RelaySettings, SweepSettings, WebhookSettings])
def test_each_setting_is_described(kind: type[Environment]) -> None:
    assert all(meaning(each) for each in fields(kind))


MALFORMED: dict[str, list[Any]] = {
    "consumer": ["", "  ", 1],
    "publishes": ["counted", ["counted", " "]],
    "effect_timeout_seconds": [-1, "1", 1.5],
    "group_size": [0, 101],
    "groups": [{"order.placed": ""}, {"": "tenant_id"}],
    "event_source": ["s3", {}, {"kind": "mail"}, {"kind": "json", "colour": "red"}],
    "tables": [{"counters": {"name": "t", "key": "pk"}}],  # not a key of two attributes, p and k
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in MALFORMED for value in MALFORMED[name]]
)
def test_a_malformed_value_is_reported(name: str, value: object) -> None:
    [fault] = faults(Settings, {**GIVEN, name: value})
    assert fault.startswith(f"{name}: ")


def test_the_command_prints_every_fault_and_tells_valid_settings(tmp_path: Path) -> None:
    (file := tmp_path / "settings.json").write_text(json.dumps({**GIVEN, "colour": 1, "tables": 1}))
    told = stderr_of("settings", "check", file)
    assert "colour: there is no such setting" in told
    assert "tables: Expected `object`, got `int`" in told
    file.write_text(json.dumps(GIVEN))
    assert "valid: the consumer notes, which handles noted" in stdout_of("settings", "check", file)


@mock_aws
def test_settings_may_be_a_parameter_that_the_variable_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    env = {"ONCE_SETTINGS": "/once-notes/settings"}
    with pytest.raises(SettingsError, match="allow the function's role ssm:GetParameter"):
        Settings.from_env(env)
    text = SETTINGS.to_env()["ONCE_SETTINGS"]
    boto3.client("ssm").put_parameter(Name=env["ONCE_SETTINGS"], Value=text, Type="String")
    assert Settings.from_env(env) == SETTINGS


# Bounds that the constructs choose and the library relies on.


NOW = 1_800_000_000
DEAD_LETTER = Limits.DEAD_LETTER_RETENTION_SECONDS
DEPLOYED = DeploymentConfig()


def longest_life(redrives: int) -> int:
    """Seconds for which a message exists, if it stays in each queue for the whole retention."""
    in_queues = (1 + redrives) * Limits.QUEUE_RETENTION_SECONDS
    return in_queues + redrives * DEAD_LETTER


@pytest.mark.parametrize(
    ("window", "life"),
    [
        *((message_life_days(n) * DAY_SECONDS, longest_life(n)) for n in (0, 2)),
        (DEPLOYED.dedup_window_seconds, (1 + DEPLOYED.redrives) * DEAD_LETTER),
    ],
)
def test_d2_the_window_contains_the_latest_duplicate(start: Start, window: int, life: int) -> None:
    aws, event = start(consumer_of(), dedup_window_seconds=window), note()
    for aws.time in (NOW, NOW + life):
        assert failures(aws.deliver(event)) == []
    assert amounts(aws) == {"a": 1}
    assert aws.dead_letters() == []


def test_two_requests_end_within_the_least_timeout_of_an_effect() -> None:
    longest = ONE_ATTEMPT.connect_timeout + ONE_ATTEMPT.read_timeout  # type: ignore[attr-defined]
    assert 2 * longest <= START_SECONDS
    assert ONE_ATTEMPT.retries["total_max_attempts"] == 1  # type: ignore[attr-defined]
