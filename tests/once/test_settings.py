"""Settings: what the infrastructure writes is what the function reads."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.errors import SettingsError
from once.settings import RelaySettings, Settings, SweepSettings, TableSettings
from tests.once.support import quick

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
NUMBER = st.integers(0, 10**9)
TABLE = st.builds(TableSettings, name=WORD, key=st.lists(WORD, min_size=1, max_size=2).map(tuple))
LISTS = st.dictionaries(WORD, st.lists(WORD, max_size=3).map(tuple), max_size=3)
SETTINGS = st.builds(
    Settings,
    consumer=WORD,
    event_types=st.lists(WORD, min_size=1, max_size=3).map(tuple),
    queue_url=WORD,
    dead_letter_url=WORD,
    dedup_table=WORD,
    tables=st.dictionaries(WORD, TABLE, max_size=3),
    dedup_window_seconds=NUMBER,
    sources=LISTS,
    publishes=st.lists(WORD, max_size=3).map(tuple),
    max_receive_count=NUMBER,
    max_body_bytes=NUMBER,
    time_margin_ms=NUMBER,
    backoff_base_seconds=NUMBER,
    backoff_cap_seconds=NUMBER,
    effect_timeout_seconds=NUMBER,
)
RELAY_SETTINGS = st.builds(
    RelaySettings,
    service=WORD,
    topic_arn=WORD,
    dead_letter_url=WORD,
    publishes=LISTS,
    time_margin_ms=NUMBER,
)
SWEEP_SETTINGS = st.builds(
    SweepSettings,
    routes=st.dictionaries(WORD, st.lists(WORD, max_size=3).map(tuple), max_size=3),
    unrouted_url=WORD,
)
EXAMPLE = Settings(
    consumer="notes",
    event_types=("noted", "erased"),
    queue_url="https://queue",
    dead_letter_url="https://dead",
    dedup_table="dedup",
    tables={"counters": TableSettings("shop-counters", ("name", "day"))},
    dedup_window_seconds=86400,
)


@quick
@given(SETTINGS)
def test_what_is_written_is_read_back(settings: Settings) -> None:
    assert Settings.from_env(settings.to_env()) == settings


@quick
@given(RELAY_SETTINGS)
def test_what_is_written_for_the_relay_is_read_back(settings: RelaySettings) -> None:
    assert RelaySettings.from_env(settings.to_env()) == settings


@quick
@given(SWEEP_SETTINGS)
def test_what_is_written_for_the_sweep_is_read_back(settings: SweepSettings) -> None:
    assert SweepSettings.from_env(settings.to_env()) == settings


def test_an_event_type_with_a_comma_is_read_back() -> None:
    settings = Settings(**{**_fields(EXAMPLE), "event_types": ("a,b", "c")})
    assert Settings.from_env(settings.to_env()).event_types == ("a,b", "c")


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in EXAMPLE.to_env().items():
        monkeypatch.setenv(name, value)
    assert Settings.from_env() == EXAMPLE


def test_every_variable_is_named_after_the_library() -> None:
    assert all(name.startswith("ONCE_") for name in EXAMPLE.to_env())
    assert len(EXAMPLE.to_env()) == len(_fields(EXAMPLE))


def test_other_variables_are_of_no_matter() -> None:
    assert Settings.from_env({**EXAMPLE.to_env(), "ONCE_UPON": "a time", "PATH": "/"}) == EXAMPLE


def test_all_missing_variables_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env({})
    assert sorted(raised.value.faults) == sorted(f"{n} is missing" for n in EXAMPLE.to_env())


def test_missing_and_malformed_variables_are_named_together_with_the_remedy() -> None:
    env = EXAMPLE.to_env() | {"ONCE_TABLES": "{", "ONCE_MAX_BODY_BYTES": "many"}
    del env["ONCE_QUEUE_URL"]
    with pytest.raises(SettingsError) as raised:
        Settings.from_env(env)
    assert [fault.split()[0] for fault in raised.value.faults] == [
        "ONCE_QUEUE_URL",
        "ONCE_TABLES",
        "ONCE_MAX_BODY_BYTES",
    ]
    assert "deploy through IdempotentConsumer" in str(raised.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ONCE_CONSUMER", ""),
        ("ONCE_QUEUE_URL", "  "),
        ("ONCE_EVENT_TYPES", "noted,,erased"),
        ("ONCE_PUBLISHES", "counted"),
        ("ONCE_PUBLISHES", '"counted"'),
        ("ONCE_PUBLISHES", '["counted", " "]'),
        ("ONCE_SOURCES", "[]"),
        ("ONCE_SOURCES", '{"noted": "/once/notes"}'),
        ("ONCE_SOURCES", '{"noted": [""]}'),
        ("ONCE_EFFECT_TIMEOUT_SECONDS", "-1"),
        ("ONCE_EFFECT_TIMEOUT_SECONDS", "soon"),
        ("ONCE_DEDUP_WINDOW_SECONDS", "-1"),
        ("ONCE_DEDUP_WINDOW_SECONDS", "1.5"),
        ("ONCE_TIME_MARGIN_MS", ""),
        ("ONCE_TABLES", ""),
        ("ONCE_TABLES", "[]"),
        ("ONCE_TABLES", '{"counters": "name"}'),
        ("ONCE_TABLES", '{"counters": {"name": "", "key": ["pk"]}}'),
        ("ONCE_TABLES", '{"counters": {"key": ["pk"]}}'),
        ("ONCE_TABLES", '{"counters": {"name": "t"}}'),
        ("ONCE_TABLES", '{"counters": {"name": "t", "key": null}}'),
    ],
)
def test_a_malformed_variable_is_called_malformed(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env(EXAMPLE.to_env() | {variable: value})
    [fault] = raised.value.faults
    assert fault.startswith(f"{variable} is malformed")


def test_all_that_the_relay_is_not_told_is_named_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        RelaySettings.from_env({"ONCE_SERVICE": "once", "ONCE_TIME_MARGIN_MS": "-1"})
    assert raised.value.faults == (
        "ONCE_TOPIC_ARN is missing",
        "ONCE_DEAD_LETTER_URL is missing",
        "ONCE_PUBLISHES is missing",
        "ONCE_TIME_MARGIN_MS is malformed (ValueError('-1 is negative'))",
    )


def test_a_key_that_is_one_text_is_not_read_letter_by_letter() -> None:
    tables = json.dumps({"counters": {"name": "t", "key": "pk"}})
    with pytest.raises(SettingsError, match="ONCE_TABLES is malformed"):
        Settings.from_env(EXAMPLE.to_env() | {"ONCE_TABLES": tables})


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.__dataclass_fields__}
