"""Queues, topics, functions and outputs of the service stack, and of each consumer in it."""

import json
import sys

import pytest

from once.cdk.app.registry import event_sources
from once.cdk.props import ConsumerProps
from once.cdk.topics import NO_EVENT
from once.events.cloud_event import read_event
from once.names import RELAY, SCHEMA_VERSION, UNROUTED, Limits
from once.ops.aws.deployment import Deployment
from once.settings import Settings
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from stacks.webhooks import WEBHOOKS
from tests.golden.versions import golden
from tests.stacks.cloud import CONTEXT, STATE, Cloud, Json, environment, flat, listed, references

DAY = 24 * 60 * 60
READERS = [*(consumer.name for consumer in CONSUMERS), RELAY]
FUNCTIONS = [*READERS, UNROUTED, WEBHOOKS.name]
ISOLATING = [consumer for consumer in CONSUMERS if consumer.batch_size > 1]


def test_queue_retention_is_four_days_and_that_of_dead_letters_fourteen(cloud: Cloud) -> None:
    queues = cloud.every("AWS::SQS::Queue").values()
    named = {q["QueueName"]: q["MessageRetentionPeriod"] for q in queues if "QueueName" in q}
    assert named == {
        **{f"once-{consumer.name}": 4 * DAY for consumer in CONSUMERS},
        **{f"once-{line.name}-isolation": 4 * DAY for line in ISOLATING},
        **{f"once-{consumer.name}-dead-letters": 14 * DAY for consumer in CONSUMERS},
    }
    for owner, part, days in ((RELAY, "DeadLetters", 14), (UNROUTED, "Queue", 14)):
        assert cloud.of(owner, part)["MessageRetentionPeriod"] == days * DAY
    assert cloud.of(UNROUTED, "Sweep")["MessageRetentionPeriod"] == 4 * DAY


def test_every_queue_is_a_standard_queue_and_encrypted(cloud: Cloud) -> None:
    for queue in cloud.every("AWS::SQS::Queue").values():
        assert "FifoQueue" not in queue
        assert queue["SqsManagedSseEnabled"] is True


def test_a_message_stays_invisible_for_six_timeouts_and_the_batch_window(
    either_cloud: Cloud,
) -> None:
    queues, aliases = map(either_cloud.every, ("AWS::SQS::Queue", "AWS::Lambda::Alias"))
    functions = either_cloud.every("AWS::Lambda::Function")
    compared: set[str] = set()
    for mapping in either_cloud.every("AWS::Lambda::EventSourceMapping").values():
        read = queues.keys() & {*references(mapping["EventSourceArn"])}
        [alias] = aliases.keys() & {*references(mapping["FunctionName"])}
        timeout = functions[aliases[alias]["FunctionName"]["Ref"]]["Timeout"]
        least = 6 * timeout + mapping.get("MaximumBatchingWindowInSeconds", 0)
        assert all(queues[each]["VisibilityTimeout"] >= least for each in read)
        compared |= read
    assert len(compared) == len(CONSUMERS) + len(ISOLATING) + 1  # and the sweep queue


def test_a_queue_lets_every_topic_in_to_which_it_subscribes(cloud: Cloud) -> None:
    allowed = {
        (str(queue), str(source))
        for policy in cloud.every("AWS::SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
        for queue in listed(statement["Resource"])
        for source in listed(statement["Condition"]["ArnEquals"]["aws:SourceArn"])
    }
    subscribed = cloud.every("AWS::SNS::Subscription").values()
    assert subscribed
    assert {(str(one["Endpoint"]), str(one["TopicArn"])) for one in subscribed} <= allowed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_its_own_handler_and_log_and_is_traced(cloud: Cloud, name: str) -> None:
    expected = {
        "FunctionName": f"once-{name}",
        "Handler": f"functions.{name}.handler.lambda_handler",
        "Architectures": ["arm64"],
        "Runtime": f"python3.{sys.version_info.minor}",  # the Python that runs the tests
        "Role": cloud.arn(name, "Role"),
        "LoggingConfig": {"LogGroup": cloud.ref(name, "Log")},
        "TracingConfig": {"Mode": "Active"},
    }
    function = cloud.of(name, "Function")
    assert {key: function[key] for key in expected} == expected
    assert cloud.of(name, "Log")["RetentionInDays"] == 30


def test_outputs_name_what_operators_and_providers_need_besides_the_command_line(
    cloud: Cloud,
) -> None:
    found = {key: output["Value"] for key, output in cloud.service["Outputs"].items()}
    assert found["AlarmTopic"] == cloud.ref("Alarms")
    url = [cloud.id_of(WEBHOOKS.name, "Live", "FunctionUrl"), "FunctionUrl"]
    assert found["WebhookUrl"] == {"Fn::GetAtt": url}
    for output, names in (
        ("OperatorReads", ("ReadOnly", "ReadWebhooks")),
        ("OperatorChanges", ("Changes", "SignWebhooks")),
    ):
        assert flat(found[output]) == ",".join(cloud.text("Operators", name) for name in names)


def test_a_dead_letter_queue_has_its_own_sources_only(either_cloud: Cloud) -> None:
    queues = either_cloud.every("AWS::SQS::Queue")
    sources: dict[str, set[str]] = {either_cloud.id_of(RELAY, "DeadLetters"): set()}
    for queue in queues.values():
        if (policy := queue.get("RedrivePolicy")) and "QueueName" in queue:
            target, _ = policy["deadLetterTargetArn"]["Fn::GetAtt"]
            sources.setdefault(target, set()).add(queue["QueueName"])
    allowed = {
        logical_id: names_in(queue["RedriveAllowPolicy"])
        for logical_id, queue in queues.items()
        if "RedriveAllowPolicy" in queue
    }
    assert allowed == sources


def names_in(policy: Json) -> set[str]:
    """Return the names of the queues that a RedriveAllowPolicy allows."""
    arns = policy.get("sourceQueueArns", [])
    assert policy["redrivePermission"] == ("byQueue" if arns else "denyAll")
    assert all(flat(arn).startswith("arn:") for arn in arns)
    return {flat(arn).rpartition(":")[2] for arn in arns}


# The operator's tools read the outputs of the stacks.


def outputs_of(cloud: Cloud) -> dict[str, str]:
    """The outputs of both stacks as CloudFormation reports them, functions by their names."""
    names = {
        f"<{key}>": f["FunctionName"] for key, f in cloud.every("AWS::Lambda::Function").items()
    }
    values = {
        key: flat(output["Value"])
        for template in (cloud.state, cloud.service)
        for key, output in template["Outputs"].items()
    }
    return {key: names.get(value, value) for key, value in values.items()}


def test_the_command_line_finds_every_resource_in_the_outputs(cloud: Cloud) -> None:
    found = Deployment.of("once", outputs_of(cloud))
    assert found.ingress_topic_arn == cloud.text("Ingress")
    assert found.events_topic_arn == cloud.text("Events")
    assert found.relay_function_name == "once-outbox_relay"
    assert found.relay_dead_letter_url == cloud.text("outbox_relay", "DeadLetters")
    assert found.unrouted_queue_url == cloud.text("unrouted", "Queue")
    assert found.sweep_queue_url == cloud.text("unrouted", "Sweep")
    assert found.operator_log == cloud.text("once-state", "operator-log")
    assert found.dedup_table == cloud.text("once-state", "dedup-records")
    tables = {table.name for consumer in CONSUMERS for table in consumer.tables}
    assert found.tables == {name: cloud.text("once-state", name) for name in tables}
    assert found.consumers.keys() == {consumer.name for consumer in CONSUMERS}
    for props in CONSUMERS:
        consumer = found.consumer(props.name)
        assert consumer.identity == props.identity
        assert consumer.queue_url == cloud.text(props.name, "Queue")
        assert consumer.dead_letter_url == cloud.text(props.name, "DeadLetters")
        assert (consumer.external, consumer.events) == (props.external, props.events)
        isolation = cloud.text(props.name, "Isolation") if props.batch_size > 1 else None
        assert consumer.isolation_queue_url == isolation


@pytest.mark.parametrize("name", golden(SCHEMA_VERSION, "consumers"))
def test_keys_by_the_outputs_are_those_that_the_consumers_compute(cloud: Cloud, name: str) -> None:
    case = golden(SCHEMA_VERSION, "consumers")[name]
    consumer = Deployment.of("once", outputs_of(cloud)).consumer(case["consumer"])
    event = read_event(json.dumps(case["event"]), max_bytes=Limits.MESSAGE_BYTES)
    assert event.type in consumer.event_types
    assert (consumer.key(event), consumer.fingerprint(event)) == (case["key"], case["fingerprint"])


# Each consumer: queues, mappings, subscriptions and environment.


def test_sqs_and_the_function_have_one_last_receive_and_the_isolation_queue_one_more(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    most = max(5, consumer.max_receive_count)
    more = {"Isolation": most + 1} if consumer in ISOLATING else {}
    for queue, limit in {"Queue": most, **more}.items():
        assert cloud.of(consumer, queue)["RedrivePolicy"] == {
            "deadLetterTargetArn": cloud.arn(consumer, "DeadLetters"),
            "maxReceiveCount": limit,
        }


@pytest.mark.parametrize("line", ISOLATING, ids=lambda line: str(line.name))
def test_isolation_queue_is_like_the_consumers_queue(cloud: Cloud, line: ConsumerProps) -> None:
    own, isolation = cloud.of(line, "Queue"), cloud.of(line, "Isolation")
    own_alone = {"QueueName", "RedrivePolicy"}
    assert isolation["QueueName"] == f"once-{line.name}-isolation"
    assert {name: isolation[name] for name in isolation.keys() - own_alone} == {
        name: own[name] for name in own.keys() - own_alone
    }


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
    assert "MetricsConfig" not in mapping  # charged, also while no message arrives
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


def test_settings_have_the_values_of_the_registry_and_the_consumers_own_resources(
    cloud: Cloud, consumer: ConsumerProps
) -> None:
    settings = Settings.from_env(environment(cloud, consumer))
    same = (
        *("event_types", "publishes", "effect_timeout_seconds", "group_size", "commit_threads"),
        *("max_receive_count", "commit_attempts"),
    )
    for name in same:
        assert getattr(settings, name) == getattr(consumer, name)
    assert settings.consumer == consumer.identity
    assert settings.sources == event_sources(consumer, REGISTRY.lines)
    assert settings.dedup_window_seconds == 45 * DAY
    assert settings.queue_url == cloud.text(consumer, "Queue")
    assert settings.dead_letter_url == cloud.text(consumer, "DeadLetters")
    isolation = cloud.text(consumer, "Isolation") if consumer.batch_size > 1 else None
    assert settings.isolation_queue_url == isolation
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
            f"SECRET_{name.upper()}": cloud.text(STATE, f"{name}-secret", attribute="Id")
            for name in consumer.secrets
        },
        **{name.upper(): CONTEXT[name] for name in consumer.parameters},
        **({"EMAIL_SENDER": "orders@example.com"} if consumer.sends_email else {}),
        "POWERTOOLS_SERVICE_NAME": f"once-{consumer.name}",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }
