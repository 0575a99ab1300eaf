"""The environment of a consumer's function, read back with the library's `Settings`."""

import pytest

from once.cdk.app.registry import event_sources
from once.cdk.props import ConsumerProps
from once.settings import Settings
from stacks.consumers import CONSUMERS
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import CONTEXT, STATE, Cloud, environment

DAY = 24 * 60 * 60


@pytest.fixture
def settings(cloud: Cloud, consumer: ConsumerProps) -> Settings:
    return Settings.from_env(environment(cloud, consumer))


def test_settings_have_the_values_of_the_registry(
    settings: Settings, consumer: ConsumerProps
) -> None:
    same = (
        *("event_types", "publishes", "effect_timeout_seconds", "group_size", "commit_threads"),
        "max_receive_count",
    )
    for name in same:
        assert getattr(settings, name) == getattr(consumer, name)
    assert settings.consumer == consumer.identity
    assert settings.sources == event_sources(consumer, CONSUMERS, WEBHOOKS)
    assert settings.dedup_window_seconds == 45 * DAY


def test_settings_name_the_consumers_own_queues(
    cloud: Cloud, settings: Settings, consumer: ConsumerProps
) -> None:
    assert settings.queue_url == cloud.text(consumer, "Queue")
    assert settings.dead_letter_url == cloud.text(consumer, "DeadLetters")
    isolation = cloud.text(consumer, "Isolation") if consumer.batch_size > 1 else None
    assert settings.isolation_queue_url == isolation


def test_settings_name_the_tables_and_their_keys(
    cloud: Cloud, settings: Settings, consumer: ConsumerProps
) -> None:
    assert cloud.id_of(STATE, "dedup-records") in settings.dedup_table
    assert set(settings.tables) == {table.name for table in consumer.tables}
    for table in consumer.tables:
        assert cloud.id_of(STATE, table.name) in settings.tables[table.name].name
        assert settings.tables[table.name].key == table.keys


def test_time_is_left_for_the_answer(either_cloud: Cloud, consumer: ConsumerProps) -> None:
    settings = Settings.from_env(environment(either_cloud, consumer))
    assert settings.time_margin_ms < 1000 * either_cloud.of(consumer, "Function")["Timeout"]


def test_a_function_has_these_other_variables_only(cloud: Cloud, consumer: ConsumerProps) -> None:
    variables = environment(cloud, consumer)
    imported = cloud.of(consumer, "Function")["Environment"]["Variables"]
    found = {name: text for name, text in variables.items() if not name.startswith("ONCE_")}
    for name in consumer.secrets:
        found[f"SECRET_{name.upper()}"] = cloud.exported(imported[f"SECRET_{name.upper()}"])
    assert found == {
        **{
            f"SECRET_{name.upper()}": cloud.text(STATE, f"secret-{name}", attribute="Id")
            for name in consumer.secrets
        },
        **{name.upper(): CONTEXT[name] for name in consumer.parameters},
        **({"EMAIL_SENDER": "orders@example.com"} if consumer.sends_email else {}),
        "POWERTOOLS_SERVICE_NAME": f"once-{consumer.name}",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }
