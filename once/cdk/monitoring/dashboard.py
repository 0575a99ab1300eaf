"""The dashboard: a row for each consumer; for webhooks, relay, unrouted events, and tables."""

from collections.abc import Iterable, Mapping
from functools import partial

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from once.cdk.monitoring.metrics import (
    AVERAGE,
    FAILED_BATCHES,
    MAXIMUM,
    SUM,
    MonitoredConsumer,
    QueueGroups,
    groups_metric,
    mapping_metric,
    once_metric,
)
from once.names import Metric

Row = list[cloudwatch.IWidget]

_PERIOD = Duration.minutes(5)
_WIDTH = 4
"""Of the 24 columns: a row holds up to six graphs, and those of one kind stand in one column."""


def consumer_row(consumer: MonitoredConsumer) -> Row:
    """Return the row of one consumer: queue, outcomes, conflicts, time, function, effects."""
    name, queue, isolation = consumer.name, consumer.queue, consumer.isolation
    ours = partial(once_metric, consumer.service, period=_PERIOD)
    of_groups = partial(groups_metric, queue, period=_PERIOD)
    waiting = [_visible(queue, "waiting")]
    oldest = [queue.metric_approximate_age_of_oldest_message(label="oldest, seconds")]
    if isolation is not None:
        waiting.append(_visible(isolation, "isolated"))
    if consumer.props.fifo:
        waiting.append(of_groups(QueueGroups.IN_FLIGHT, label="groups in flight"))
    elif consumer.props.fair_by is not None:
        waiting += [
            of_groups(QueueGroups.WAITING_IN_QUIET, label="waiting in quiet groups"),
            of_groups(QueueGroups.NOISY, label="noisy groups"),
        ]
        label = "oldest in quiet groups, seconds"
        oldest.append(of_groups(QueueGroups.OLDEST_IN_QUIET, label=label))
    waiting.append(_visible(consumer.dead_letters, "dead letters"))
    row = [
        _graph(f"{name}: queue", *waiting, right=oldest),
        _graph(
            f"{name}: messages",
            ours(Metric.COMMITTED, label="committed"),
            ours(Metric.REFUSED, label="refused"),
            ours(Metric.RESENT, label="sent again"),
            ours(Metric.REDELIVERED, label="delivered again"),
            ours(Metric.REDRIVEN, label="redriven again"),
            ours(Metric.BREAKER_OPEN, label="held back"),
            *([ours(Metric.ISOLATED, label="isolated")] if isolation else []),
        ),
        _graph(
            f"{name}: conflicts",
            ours(Metric.CONFLICTS, label="conflicts"),
            right=[ours(Metric.GROUP_SIZE, statistic=AVERAGE, label="group size")],
        ),
        _graph(
            f"{name}: commit, ms",
            ours(Metric.COMMIT_MS, statistic="p50", label="p50"),
            ours(Metric.COMMIT_MS, statistic="p99", label="p99"),
        ),
        _function(name, consumer.function),
    ]
    if consumer.props.has_effects:
        effects = _graph(
            f"{name}: effects",
            ours(Metric.EFFECTS_DONE, label="done"),
            ours(Metric.EFFECTS_NOT_DONE, label="not done"),
            ours(Metric.EFFECTS_UNKNOWN, label="unknown"),
            right=[ours(Metric.PENDING_SECONDS, statistic=MAXIMUM, label="pending, seconds")],
        )
        row.append(effects)
    return row


def relay_row(
    name: str,
    service: str,
    *,
    dead_letters: sqs.IQueue,
    function: lambda_.IFunction,
    mapping: lambda_.IEventSourceMapping,
) -> Row:
    """Return the relay's row: delay, published events, unpublished ones, function."""
    ours = partial(once_metric, service, period=_PERIOD)
    return [
        _graph(
            f"{name}: behind, ms",
            ours(Metric.RELAY_LAG_MS, statistic=MAXIMUM, label="commit to topic"),
            function.metric(
                "IteratorAge", period=_PERIOD, statistic=MAXIMUM, label="in the stream"
            ),
        ),
        _graph(f"{name}: events", ours(Metric.PUBLISHED, label="published")),
        _graph(
            f"{name}: left over",
            _visible(dead_letters, "dead letters"),
            mapping_metric(FAILED_BATCHES, mapping, _PERIOD, "failed batches"),
        ),
        _function(name, function),
    ]


def ingress_row(name: str, service: str, function: lambda_.IFunction) -> Row:
    """Return the row of a webhook ingress: webhooks, those not handed on, time, function."""
    ours = partial(once_metric, service, period=_PERIOD)
    return [
        _graph(
            f"{name}: webhooks",
            ours(Metric.WEBHOOKS_TAKEN, label="taken"),
            ours(Metric.WEBHOOK_DUPLICATES, label="sent again"),
            ours(Metric.WEBHOOK_CONFLICTS, label="conflicts"),
            ours(Metric.WEBHOOKS_UNREADABLE, label="unreadable"),
            ours(Metric.WEBHOOKS_UNPUBLISHABLE, label="unpublishable"),
        ),
        _graph(
            f"{name}: refused",
            ours(Metric.WEBHOOKS_FORGED, label="forged"),
            ours(Metric.WEBHOOKS_STALE, label="stale"),
            ours(Metric.WEBHOOKS_TOO_LARGE, label="too large"),
            ours(Metric.WEBHOOKS_FAILED, label="failed"),
        ),
        _graph(
            f"{name}: answer, ms",
            ours(Metric.WEBHOOK_MS, statistic="p50", label="p50"),
            ours(Metric.WEBHOOK_MS, statistic="p99", label="p99"),
        ),
        _function(name, function),
    ]


def unrouted_row(
    name: str, unrouted: sqs.IQueue, sweep: sqs.IQueue, function: lambda_.IFunction
) -> Row:
    """Return the row of unrouted events: those kept, the queue they are found in, function."""
    kept = [_visible(unrouted, "kept"), _visible(sweep, "not yet looked at")]
    return [_graph(f"{name}: events", *kept), _function(name, function)]


def tables_row(tables: Mapping[str, dynamodb.ITable]) -> Row:
    """Return the row of all tables: throttled requests, conflicts, consumed units."""
    shown = {
        "throttled reads": "ReadThrottleEvents",
        "throttled writes": "WriteThrottleEvents",
        "conflicts": "TransactionConflict",
        "read units": "ConsumedReadCapacityUnits",
        "write units": "ConsumedWriteCapacityUnits",
    }
    return [
        _graph(
            f"tables: {what}",
            *(
                table.metric(metric, period=_PERIOD, statistic=SUM, label=name)
                for name, table in tables.items()
            ),
        )
        for what, metric in shown.items()
    ]


def _visible(queue: sqs.IQueue, label: str) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(label=label)


def _function(name: str, function: lambda_.IFunction) -> cloudwatch.IWidget:
    return _graph(
        f"{name}: function",
        function.metric_invocations(label="invocations"),
        function.metric_errors(label="errors"),
        function.metric_throttles(label="throttles"),
    )


def _graph(
    title: str, *metrics: cloudwatch.IMetric, right: Iterable[cloudwatch.IMetric] = ()
) -> cloudwatch.IWidget:
    from_zero = cloudwatch.YAxisProps(min=0)  # otherwise small changes look large
    return cloudwatch.GraphWidget(
        title=title,
        left=list(metrics),
        right=list(right),
        left_y_axis=from_zero,
        right_y_axis=from_zero,
        width=_WIDTH,
    )
