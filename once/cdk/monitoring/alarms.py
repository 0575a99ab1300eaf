"""The alarms. Each names, in its description, the entry of the runbook that says what to do."""

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.monitoring._alarm_set import (
    AGE_ALARM_SECONDS,
    ENOUGH,
    MINUTE,
    MOMENT,
    STREAM_AGE_ALARM_MS,
    WHILE,
    Alarms,
)
from once.cdk.monitoring._group_alarms import add_group_alarms
from once.cdk.monitoring.metrics import (
    MAXIMUM,
    SUM,
    MonitoredConsumer,
    failed_batches,
    messages,
    once_metric,
)
from once.metric_names import Metric


def add_consumer_alarms(
    scope: Construct, consumer: MonitoredConsumer, *, local: bool
) -> list[cloudwatch.IAlarm]:
    """Add the alarms of a consumer, and return those that a faulty new version sets off.

    With `local` those on shares and on the mapping are left out: the embedded AWS rejects metric
    math.
    """
    alarms = Alarms(scope, consumer.service, local)
    age = consumer.queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic=MAXIMUM)
    waits = once_metric(consumer.service, Metric.BREAKER_OPEN, MOMENT)
    new_letters = alarms.on_dead_letters(consumer.dead_letters, "dead-letters")
    alarms.add("AgeAlarm", age, AGE_ALARM_SECONDS, "old-messages", "SQS will soon delete messages")
    if consumer.isolation is not None:
        alarms.on_isolation(consumer.isolation)
    add_group_alarms(alarms.add, consumer)
    faulty = [
        new_letters,
        alarms.add("BreakerAlarm", waits, 1, "breaker-open", "messages wait for what is down"),
        alarms.on_function(consumer.function),
    ]
    if consumer.props.has_effects:
        alarms.on_effects()
    if not local:
        alarms.on_shares()
        if consumer.mapping is not None:
            alarms.on_hand_over(consumer.mapping)
    return faulty


def add_relay_alarms(
    scope: Construct,
    name: str,
    dead_letters: sqs.IQueue,
    function: lambda_.IFunction,
    mapping: lambda_.IEventSourceMapping,
    *,
    local: bool,
) -> None:
    """Alarm when an event was dead-lettered, a batch has failed, and when publishing falls behind.

    There is none on the function's errors: it raises an error to receive a batch again, and any
    lasting cause shows in the age of the batch.
    """
    alarms = Alarms(scope, name, local)
    age = function.metric("IteratorAge", period=MINUTE, statistic=MAXIMUM)
    failed = failed_batches(mapping.event_source_mapping_id, MINUTE)
    alarms.on_dead_letters(dead_letters, "relay-dead-letters")
    alarms.add("AgeAlarm", age, STREAM_AGE_ALARM_MS, "relay-behind", "events are published late")
    alarms.add(
        "FailuresAlarm", failed, 1, "relay-failed-batches", "unpublished records lie in the bucket"
    )


def add_unrouted_alarms(
    scope: Construct,
    name: str,
    unrouted: sqs.IQueue,
    sweep: sqs.IQueue,
    function: lambda_.IFunction,
    *,
    local: bool,
) -> None:
    """Alarm when an event reached no consumer, and when the sweep function fails."""
    alarms = Alarms(scope, name, local)
    kept = messages(unrouted, MINUTE, local=local)
    alarms.on_letters(unrouted)
    age = sweep.metric_approximate_age_of_oldest_message(period=MINUTE, statistic=MAXIMUM)
    alarms.add("UnroutedAlarm", kept, 1, "unrouted-events", "published events reached no consumer")
    alarms.add("AgeAlarm", age, AGE_ALARM_SECONDS, "old-messages", "SQS will soon delete messages")
    alarms.on_function(function)


def add_table_alarms(scope: Construct, name: str, table: dynamodb.ITable) -> None:
    """Alarm when the dedup table delays commits, each of which writes to it."""
    alarms = Alarms(scope, name)
    conflicts = table.metric("TransactionConflict", period=WHILE, statistic=SUM)
    for kind, them in (("Read", "reads"), ("Write", "writes")):
        throttled = table.metric(f"{kind}ThrottleEvents", period=WHILE, statistic=SUM)
        what = f"DynamoDB throttles {them}"
        alarms.add(f"Dedup{kind}sAlarm", throttled, ENOUGH, "table-throttled", what)
    same = "the same events are worked on in parallel"
    alarms.add("DedupConflictsAlarm", conflicts, ENOUGH, "table-conflicts", same)
