"""Queues, mappings, subscriptions and environment of each consumer in the registry."""

import pytest

from once.cdk.app.registry import event_sources
from once.cdk.props import ConsumerProps
from once.cdk.topics import NO_EVENT
from once.settings import Settings
from stacks.consumers import CONSUMERS
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import CONTEXT, STATE, Cloud, environment

ISOLATING = [consumer for consumer in CONSUMERS if consumer.batch_size > 1]


def test_a_message_runs_five_times_and_the_consumer_has_one_receive_more_to_say_why(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    for queue in ("Queue", "Isolation") if consumer in ISOLATING else ("Queue",):
        assert cloud.of(consumer, queue)["RedrivePolicy"] == {
            "deadLetterTargetArn": cloud.arn(consumer, "DeadLetters"),
            "maxReceiveCount": max(5, consumer.max_receive_count) + 1,
        }


@pytest.mark.parametrize("line", ISOLATING, ids=lambda line: str(line.name))
def test_isolation_queue_is_like_the_consumers_queue(cloud: Cloud, line: ConsumerProps) -> None:
    own, isolation = cloud.of(line, "Queue"), cloud.of(line, "Isolation")
    assert isolation == own | {"QueueName": f"once-{line.name}-isolation"}


@pytest.mark.parametrize("line", ISOLATING, ids=lambda line: str(line.name))
def test_isolated_messages_come_one_by_one_and_two_at_a_time(
    cloud: Cloud, line: ConsumerProps
) -> None:
    mapping = cloud.of(line, "IsolationMapping")
    assert mapping["EventSourceArn"] == cloud.arn(line, "Isolation")
    assert mapping["FunctionName"] == cloud.of(line, "Mapping")["FunctionName"]
    assert mapping["BatchSize"] == 1
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}


def test_mapping_takes_partial_answers_and_bounds_concurrency(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    mapping = cloud.of(consumer, "Mapping")
    assert mapping["EventSourceArn"] == cloud.arn(consumer, "Queue")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": consumer.concurrency}
    assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}
    assert "FilterCriteria" not in mapping  # Lambda deletes the messages that a filter drops


def test_queue_gets_external_types_from_ingress_and_others_from_events(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    wanted = {"Ingress": consumer.external, "Events": consumer.events}
    found = cloud.subscriptions(consumer, "Queue")
    assert {topic: each["FilterPolicy"] for topic, each in found.items()} == {
        # The subscription stays when the last type leaves the line.
        cloud.id_of(topic): {"type": list(types) or [NO_EVENT]}
        for topic, types in wanted.items()
    }
    for subscription in found.values():
        assert subscription["RawMessageDelivery"] is True
        assert subscription.get("FilterPolicyScope", "MessageAttributes") == "MessageAttributes"


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
