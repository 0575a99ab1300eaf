"""Settings: written by the infrastructure as environment variables, and read by the function."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from once.errors import SettingsError
from once.event_sources import Source
from once.settings import RelaySettings, Settings, SweepSettings, TableSettings
from tests.once.support import SETTINGS, quick

WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)
NUMBER = st.integers(0, 10**9)
WORDS = st.lists(WORD, max_size=3).map(tuple)
TABLE = st.builds(TableSettings, name=WORD, key=st.lists(WORD, min_size=1, max_size=2).map(tuple))
LISTS = st.dictionaries(WORD, WORDS, max_size=3)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "consumer": st.builds(
        Settings,
        consumer=WORD,
        event_types=st.lists(WORD, min_size=1, max_size=3).map(tuple),
        queue_url=WORD,
        dead_letter_url=WORD,
        dedup_table=WORD,
        tables=st.dictionaries(WORD, TABLE, max_size=3),
        dedup_window_seconds=NUMBER,
        sources=LISTS,
        publishes=WORDS,
        max_receive_count=NUMBER,
        max_body_bytes=NUMBER,
        time_margin_ms=NUMBER,
        backoff_base_seconds=NUMBER,
        backoff_cap_seconds=NUMBER,
        effect_timeout_seconds=NUMBER,
        event_source=st.none() | st.builds(Source.event_bridge, WORD, bus=WORD),
    ),
    "relay": st.builds(
        RelaySettings,
        service=WORD,
        topic_arn=WORD,
        dead_letter_url=WORD,
        publishes=LISTS,
        time_margin_ms=NUMBER,
    ),
    "sweep": st.builds(SweepSettings, routes=LISTS, unrouted_url=WORD),
}
ENV = SETTINGS.to_env()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@quick
@given(st.data())
def test_settings_that_are_written_are_read_back(
    kind: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    settings = data.draw(kind)
    assert type(settings).from_env(settings.to_env()) == settings


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENV, "ONCE_UPON": "a time"}.items():
        monkeypatch.setenv(name, value)
    assert Settings.from_env() == SETTINGS


def test_each_setting_has_a_variable_with_the_prefix_of_the_library() -> None:
    assert all(name.startswith("ONCE_") for name in ENV)
    assert len(ENV) == len(fields(Settings))


def test_missing_and_malformed_variables_are_reported_together_with_the_remedy() -> None:
    env = ENV | {"ONCE_TABLES": "{", "ONCE_MAX_BODY_BYTES": "many"}
    del env["ONCE_QUEUE_URL"]
    with pytest.raises(SettingsError) as raised:
        Settings.from_env(env)
    variables = [fault.split()[0] for fault in raised.value.faults]
    assert variables == ["ONCE_TABLES", "ONCE_MAX_BODY_BYTES", "ONCE_QUEUE_URL"]
    assert "deploy through IdempotentConsumer" in str(raised.value)


MALFORMED = {
    "ONCE_CONSUMER": [""],
    "ONCE_QUEUE_URL": ["  "],
    "ONCE_EVENT_TYPES": ["noted,,erased"],
    "ONCE_PUBLISHES": ["counted", '"counted"', '["counted", " "]'],
    "ONCE_SOURCES": ["[]", '{"noted": "/once/notes"}', '{"noted": [""]}'],
    "ONCE_EFFECT_TIMEOUT_SECONDS": ["-1", "soon"],
    "ONCE_DEDUP_WINDOW_SECONDS": ["-1", "1.5"],
    "ONCE_TIME_MARGIN_MS": [""],
    "ONCE_BLOCKS_GROUP": ["", "yes", "True"],
    "ONCE_GROUPS": ["", "[]", '{"order.placed": ""}', '{"": "tenant_id"}'],
    "ONCE_TABLES": [
        "",
        "[]",
        '{"counters": "name"}',
        '{"counters": {"name": "", "key": ["pk"]}}',
        '{"counters": {"key": ["pk"]}}',
        '{"counters": {"name": "t"}}',
        '{"counters": {"name": "t", "key": null}}',
        '{"counters": {"name": "t", "key": "pk"}}',  # not a key of two attributes, p and k
    ],
}


@pytest.mark.parametrize(
    ("variable", "value"), [(name, value) for name in MALFORMED for value in MALFORMED[name]]
)
def test_a_malformed_variable_is_reported(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env(ENV | {variable: value})
    [fault] = raised.value.faults
    assert fault.startswith(f"{variable} is malformed")
