"""What consumers and the relay show: alarms, and a row of the dashboard each."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.contract import Limits

MINUTE = Duration.minutes(1)
MAXIMUM = "Maximum"
AGE_ALARM_SECONDS = Limits.QUEUE_RETENTION_SECONDS // 2
"""Half the retention: what reaches the end of it is deleted, and a weekend must fit in between."""
STREAM_AGE_ALARM_MS = 60 * 60 * 1000
"""An hour, of the 24 that the stream keeps: long before the relay gives a batch up for its age."""


def add_alarms(scope: Construct, name: str, queue: sqs.IQueue, dead_letters: sqs.IQueue) -> None:
    """Alarm when a message was dead-lettered, and when one may soon be lost by retention."""
    age = queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic=MAXIMUM)
    _alarm_on_dead_letters(scope, name, dead_letters)
    _alarm(scope, "AgeAlarm", age, AGE_ALARM_SECONDS, f"{name}: SQS will soon delete messages")


def add_relay_alarms(
    scope: Construct,
    name: str,
    dead_letters: sqs.IQueue,
    function: lambda_.IFunction,
    mapping: lambda_.IEventSourceMapping,
) -> None:
    """Alarm when an event was dead-lettered, a batch given up, and when publishing falls behind."""
    age = function.metric("IteratorAge", period=MINUTE, statistic=MAXIMUM)
    given_up = cloudwatch.Metric(
        namespace="AWS/Lambda",
        metric_name="OnFailureDestinationDeliveredEventCount",
        dimensions_map={"EventSourceMappingUUID": mapping.event_source_mapping_id},
        period=MINUTE,
        statistic="Sum",
    )
    _alarm_on_dead_letters(scope, name, dead_letters)
    _alarm(scope, "AgeAlarm", age, STREAM_AGE_ALARM_MS, f"{name}: events are published late")
    _alarm(scope, "FailuresAlarm", given_up, 1, f"{name}: unpublished records lie in the bucket")


def _alarm_on_dead_letters(scope: Construct, name: str, dead_letters: sqs.IQueue) -> None:
    dead = dead_letters.metric_approximate_number_of_messages_visible(
        period=MINUTE, statistic=MAXIMUM
    )
    _alarm(scope, "DeadLettersAlarm", dead, 1, f"{name}: dead letters wait for a decision")


def _alarm(
    scope: Construct, name: str, metric: cloudwatch.IMetric, threshold: int, text: str
) -> None:
    cloudwatch.Alarm(
        scope,
        name,
        metric=metric,
        threshold=threshold,
        evaluation_periods=1,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        # An idle queue reports nothing, and idle is not a fault.
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        alarm_description=text,
    )


def dashboard_row(
    name: str, queue: sqs.IQueue, dead_letters: sqs.IQueue, function: lambda_.IFunction
) -> list[cloudwatch.IWidget]:
    """Return the row of one consumer: backlog, age, dead letters, function."""
    return [
        _graph(f"{name}: waiting", queue.metric_approximate_number_of_messages_visible()),
        _graph(f"{name}: oldest, seconds", queue.metric_approximate_age_of_oldest_message()),
        *_dead_letters_and_function(name, dead_letters, function),
    ]


def relay_row(
    name: str, dead_letters: sqs.IQueue, function: lambda_.IFunction
) -> list[cloudwatch.IWidget]:
    """Return the relay's row: how late it publishes, dead letters, function."""
    return [
        _graph(f"{name}: behind, ms", function.metric("IteratorAge", statistic=MAXIMUM)),
        *_dead_letters_and_function(name, dead_letters, function),
    ]


def _dead_letters_and_function(
    name: str, dead_letters: sqs.IQueue, function: lambda_.IFunction
) -> list[cloudwatch.IWidget]:
    return [
        _graph(
            f"{name}: dead letters", dead_letters.metric_approximate_number_of_messages_visible()
        ),
        _graph(
            f"{name}: function",
            function.metric_invocations(),
            function.metric_errors(),
            function.metric_throttles(),
        ),
    ]


def _graph(title: str, *metrics: cloudwatch.IMetric) -> cloudwatch.IWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=6)
