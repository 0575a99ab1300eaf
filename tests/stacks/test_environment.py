"""What the infrastructure writes into a function's environment, the library reads back."""

from once.cdk.props import ConsumerProps, event_sources
from once.settings import Settings
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import CONTEXT, Cloud, environment

DAY = 24 * 60 * 60


def test_environment_goes_back_through_settings(cloud: Cloud, consumer: ConsumerProps) -> None:
    settings = Settings.from_env(environment(cloud, consumer))
    assert settings.consumer == consumer.name
    assert settings.event_types == consumer.event_types
    assert settings.sources == event_sources(consumer, CONSUMERS)
    assert settings.publishes == consumer.publishes
    assert settings.effect_timeout_seconds == consumer.effect_timeout_seconds
    assert settings.group_size == consumer.group_size
    assert settings.commit_threads == consumer.commit_threads
    assert settings.max_receive_count == consumer.max_receive_count
    assert settings.dedup_window_seconds == 45 * DAY


def test_settings_name_the_consumers_own_queues(cloud: Cloud, consumer: ConsumerProps) -> None:
    settings = Settings.from_env(environment(cloud, consumer))
    own = f"once-service/{consumer.name}"
    assert settings.queue_url == f"<{cloud.logical_id(f'{own}/Queue')}>"
    assert settings.dead_letter_url == f"<{cloud.logical_id(f'{own}/DeadLetters')}>"
    isolates = consumer.batch_size > 1
    isolation = f"<{cloud.logical_id(f'{own}/Isolation')}>" if isolates else None
    assert settings.isolation_queue_url == isolation


def test_settings_name_the_tables_and_their_keys(cloud: Cloud, consumer: ConsumerProps) -> None:
    settings = Settings.from_env(environment(cloud, consumer))
    assert cloud.logical_id("once-state/dedup-records") in settings.dedup_table
    assert set(settings.tables) == {table.name for table in consumer.tables}
    for table in consumer.tables:
        assert cloud.logical_id(f"once-state/{table.name}") in settings.tables[table.name].name
        assert settings.tables[table.name].key == table.keys


def test_time_is_left_for_the_answer(
    cloud: Cloud, local_cloud: Cloud, consumer: ConsumerProps
) -> None:
    for each in (cloud, local_cloud):
        settings = Settings.from_env(environment(each, consumer))
        assert settings.time_margin_ms < 1000 * each.of(consumer, "Function")["Timeout"]


def test_a_function_finds_its_secrets(cloud: Cloud, consumer: ConsumerProps) -> None:
    variables = cloud.of(consumer, "Function")["Environment"]["Variables"]
    found = {name: cloud.exported(v) for name, v in variables.items() if name.startswith("SECRET_")}
    assert found == {
        f"SECRET_{name.upper()}": f"<{cloud.logical_id(f'once-state/secret-{name}')}.Id>"
        for name in consumer.secrets
    }


def test_a_function_is_told_the_parameters_of_its_line(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    variables = environment(cloud, consumer)
    for name in consumer.parameters:
        assert variables[name.upper()] == CONTEXT[name]


def test_who_sends_email_knows_from_which_address(cloud: Cloud, consumer: ConsumerProps) -> None:
    sender = environment(cloud, consumer).get("EMAIL_SENDER")
    assert sender == ("orders@example.com" if consumer.sends_email else None)


def test_a_function_is_told_nothing_else(cloud: Cloud, consumer: ConsumerProps) -> None:
    told = {
        *(f"SECRET_{name.upper()}" for name in consumer.secrets),
        *(name.upper() for name in consumer.parameters),
        *(["EMAIL_SENDER"] if consumer.sends_email else []),
    }
    ours = ("ONCE_", "POWERTOOLS_")
    assert {v for v in environment(cloud, consumer) if not v.startswith(ours)} == told


def test_logs_name_the_function(cloud: Cloud, consumer: ConsumerProps) -> None:
    variables = environment(cloud, consumer)
    assert variables["POWERTOOLS_SERVICE_NAME"] == f"once-{consumer.name}"
    assert variables["POWERTOOLS_LOG_LEVEL"] == "INFO"
