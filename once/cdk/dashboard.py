"""Dashboard: the alarms and every part at a glance, then the graphs of one consumer.

The consumer is chosen by a variable of the dashboard: CloudWatch puts its name in place of a
pattern. A dashboard for each consumer would cost 3 USD a month each. The thresholds of alarms are
drawn; a graph with one has the period of its alarm.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk import monitoring
from once.cdk.command_function import CommandFunction
from once.cdk.idempotent_consumer import IdempotentConsumer
from once.cdk.monitoring import AVERAGE, MAXIMUM, MOMENT, WHILE, of_groups, of_mapping, once_metric
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.unrouted_events import UnroutedEvents
from once.cdk.webhook_function import WebhookFunction
from once.names import RELAY, UNROUTED, Metric

CHOSEN = "CHOSEN-CONSUMER"
"""The pattern for which the console puts in the name of the chosen consumer."""
_WIDTH = 6
"""Four graphs in a row."""
_CYAN = "#17becf"
_MOST_ALARMS = 100
"""Of one widget: CloudWatch refuses a dashboard with more."""
_SHOWN = Duration.hours(12)
"""An operator comes hours after the begin of an incident; CloudWatch would show three."""
_Row = list[cloudwatch.IWidget]


@dataclass(frozen=True, slots=True)
class DashboardParts:
    """The parts that a dashboard shows beside the consumers; tables by their names."""

    commands: Sequence[CommandFunction] = ()
    webhooks: WebhookFunction | None = None
    relay: OutboxRelay | None = None
    unrouted: UnroutedEvents | None = None
    tables: Mapping[str, dynamodb.ITable] = field(default_factory=dict)


def make_dashboard(
    scope: Construct,
    name: str,
    consumers: Sequence[IdempotentConsumer],
    parts: DashboardParts | None = None,
) -> None:
    """Add a dashboard to a construct, with the state of all alarms below it.

    Args:
        name: the dashboard's name, which is that of the whole account, not of a Region.
        consumers: those of one service, with a line in each graph of the first rows.
        parts: what else it shows.
    """
    parts = parts or DashboardParts()
    names = [consumer.props.name for consumer in consumers]
    service = consumers[0].config.service if consumers else ""
    variables = [_chooser(names)] if len(names) > 1 else []
    shown = [CHOSEN] if variables else names
    cloudwatch.Dashboard(
        scope,
        "Dashboard",
        dashboard_name=name,
        default_interval=_SHOWN,
        variables=variables,
        widgets=[
            [*_alarms(scope), *_glance(consumers, parts)],
            [*_failures(consumers, parts), *_parts(parts)],
            [graph for each in shown for graph in _consumer_row(service, each)],
            [graph for consumer in consumers for graph in _declared(consumer)],
        ],
    )


def _chooser(names: Sequence[str]) -> cloudwatch.DashboardVariable:
    values = [cloudwatch.VariableValue(label=name, value=name) for name in names]
    return cloudwatch.DashboardVariable(
        id="consumer",
        label="consumer",
        type=cloudwatch.VariableType.PATTERN,
        input_type=cloudwatch.VariableInputType.SELECT,
        value=CHOSEN,
        values=cloudwatch.Values.from_values(*values),
        default_value=cloudwatch.DefaultValue.value(names[0]),
    )


def _alarms(scope: Construct) -> _Row:
    """Return the states of all alarms: first those in ALARM, the latest change first."""
    alarms = [each for each in scope.node.find_all() if isinstance(each, cloudwatch.Alarm)]
    return [
        cloudwatch.AlarmStatusWidget(
            title="alarms",
            alarms=alarms[begin : begin + _MOST_ALARMS],
            sort_by=cloudwatch.AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
            width=_WIDTH + 2,
            height=6,
        )
        for begin in range(0, len(alarms), _MOST_ALARMS)
    ]


def _glance(consumers: Sequence[IdempotentConsumer], parts: DashboardParts) -> _Row:
    """Return the graphs of messages, their age, dead letters and time, with a line for each part.

    A message that waits for its next attempt is hidden, and counts as well.
    """
    waiting, ages, letters, times = list[cloudwatch.IMetric](), [], [], []
    for number, consumer in enumerate(consumers):
        shown: dict[str, Any] = {"label": consumer.props.name, "color": _colour(number)}
        both = [each for each in (consumer.queue, consumer.isolation) if each is not None]
        waiting.append(_all_of(f"queue{number}", both, **shown))
        ages.append(consumer.queue.metric_approximate_age_of_oldest_message(**shown))
        letters.append(_visible(consumer.dead_letters, **shown))
        time = once_metric(consumer.full_name, Metric.COMMIT_MS, statistic="p99", **shown)
        times.append(time)
    if parts.unrouted is not None:
        waiting.append(_visible(parts.unrouted.sweep, label=UNROUTED))
        letters.append(_visible(parts.unrouted.queue, label=UNROUTED))
    if parts.relay is not None:
        letters.append(_visible(parts.relay.dead_letters, label=RELAY))
        lag = {"label": "commit to topic", "statistic": "p99"}
        times.append(once_metric(parts.relay.full_name, Metric.RELAY_LAG_MS, **lag))
    hour = {"old messages": monitoring.AGE_SECONDS}
    graphs = (
        _graph("messages waiting or retried", *waiting, width=4),
        _graph("oldest message, seconds", *ages, thresholds=hour, width=4),
        _graph("dead letters", *letters, thresholds={"dead letters": 1}, width=4),
        _graph("commit and relay, p99, ms", *times, width=4),
    )
    return [*graphs] if consumers else []


def _failures(consumers: Sequence[IdempotentConsumer], parts: DashboardParts) -> _Row:
    """Return the graphs of what precedes a dead letter, with a line for each part."""

    def of_each(metric: str) -> list[cloudwatch.Metric]:
        return [
            once_metric(
                each.full_name, metric, label=each.props.name, color=_colour(number), period=WHILE
            )
            for number, each in enumerate(consumers)
        ]

    others = filter(None, (*parts.commands, parts.webhooks, parts.relay, parts.unrouted))
    errors = [
        each.function.metric_errors(label=each.node.id, color=_colour(number), period=WHILE)
        for number, each in enumerate((*consumers, *others))
    ]
    throttles = lambda_.Function.metric_all_throttles(label="throttles, account")
    return [
        _graph(
            "retried", *of_each(Metric.RETRIED), thresholds={"messages retried": monitoring.RETRIES}
        ),
        _graph("dead-lettered", *of_each(Metric.QUARANTINED)),
        _graph(
            "function errors",
            *errors,
            right=[throttles],
            thresholds={"function errors": monitoring.ERRORS},
        ),
    ]


def _parts(parts: DashboardParts) -> Iterable[cloudwatch.IWidget]:
    """Yield the graphs of relay, webhooks, commands and tables."""
    if parts.relay is not None:
        relay, name = parts.relay, parts.relay.full_name
        age = relay.function.metric(
            "IteratorAge", period=MOMENT, statistic=MAXIMUM, label="in the stream, ms"
        )
        left_over = [of_mapping(monitoring.FAILED_BATCHES, relay.mapping, label="failed batches")]
        published = [once_metric(name, Metric.PUBLISHED, label="published")]
        if relay.schedule_group is not None:
            left_over.append(monitoring.failed_attempts(relay.schedule_group))
            published.append(once_metric(name, Metric.DUE_CREATED, label="to be published later"))
        yield _graph(
            f"{RELAY}: events",
            *published,
            *left_over,
            right=[age],
        )
    if (webhooks := parts.webhooks) is not None:
        shown = {
            "taken": Metric.WEBHOOKS_TAKEN,
            "sent again": Metric.WEBHOOK_DUPLICATES,
            "conflicts": Metric.WEBHOOK_CONFLICTS,
            "unreadable": Metric.WEBHOOKS_UNREADABLE,
            "unpublishable": Metric.WEBHOOKS_UNPUBLISHABLE,
            "failed": Metric.WEBHOOKS_FAILED,
            "forged": Metric.WEBHOOKS_FORGED,
            "stale": Metric.WEBHOOKS_STALE,
            "too large": Metric.WEBHOOKS_TOO_LARGE,
        }
        yield _outcomes(webhooks.node.id, webhooks.full_name, shown, Metric.WEBHOOK_MS)
    for commands in parts.commands:
        shown = {
            "committed": Metric.COMMANDS_COMMITTED,
            "refused": Metric.COMMANDS_REFUSED,
            "repeated": Metric.COMMANDS_REPEATED,
            "invalid": Metric.COMMANDS_INVALID,
            "other content": Metric.COMMAND_CONFLICTS,
            "failed": Metric.COMMANDS_FAILED,
        }
        yield _outcomes(commands.node.id, commands.full_name, shown, Metric.COMMAND_MS)
    if parts.tables:
        names = ("ReadThrottleEvents", "WriteThrottleEvents", "TransactionConflict")
        sums = []
        for number, (name, table) in enumerate(parts.tables.items()):
            used = {
                f"table{number}_{n}": table.metric(each, period=MOMENT, statistic=monitoring.SUM)
                for n, each in enumerate(names)
            }
            sums.append(_sum(used, label=name))
        yield _graph("tables: throttles and conflicts", *sums)


def _outcomes(
    title: str, service: str, metrics: Mapping[str, str], duration: str
) -> cloudwatch.IWidget:
    shown = [once_metric(service, metric, label=label) for label, metric in metrics.items()]
    right = [once_metric(service, duration, label="p99, ms", statistic="p99")]
    return _graph(f"{title}: outcomes", *shown, right=right)


def _consumer_row(service: str, name: str) -> _Row:
    """Return the graphs of one consumer: outcomes, conflicts, duration and function.

    Args:
        service: name of the service, the begin of the function's name.
        name: the consumer's name, or the pattern for which CloudWatch puts it in.
    """
    full_name = f"{service}-{name}"

    def of(metric: str, label: str, **options: Any) -> cloudwatch.Metric:
        return once_metric(full_name, metric, label=label, **options)

    function = [
        monitoring.any_metric("AWS/Lambda", each, {"FunctionName": full_name}, label=each.lower())
        for each in ("Invocations", "Errors", "Throttles")
    ]
    return [
        _graph(
            f"{name}: outcomes",
            of(Metric.COMMITTED, "committed", color=cloudwatch.Color.GREEN),
            of(Metric.REFUSED, "refused", color=cloudwatch.Color.BLUE),
            of(Metric.RESENT, "sent again", color=cloudwatch.Color.BROWN),
            of(Metric.REDELIVERED, "delivered again", color=cloudwatch.Color.PINK),
            of(Metric.REDRIVEN, "redriven again", color=cloudwatch.Color.PURPLE),
            of(Metric.RETRIED, "retried", color=cloudwatch.Color.ORANGE),
            of(Metric.BREAKER_OPEN, "held back", color=cloudwatch.Color.GREY),
            of(Metric.QUARANTINED, "dead-lettered", color=cloudwatch.Color.RED),
            of(Metric.ISOLATED, "isolated", color=_CYAN),
        ),
        _graph(
            f"{name}: conflicts",
            of(Metric.CONFLICTS, "conflicts"),
            right=[of(Metric.GROUP_SIZE, "group size", statistic=AVERAGE)],
        ),
        _graph(
            f"{name}: commit, ms",
            *(of(Metric.COMMIT_MS, each, statistic=each) for each in ("p50", "p99")),
        ),
        _graph(f"{name}: function", *function),
    ]


def _declared(consumer: IdempotentConsumer) -> Iterable[cloudwatch.IWidget]:
    """Yield the graphs of what only some consumers declare: effects, groups, due events."""
    props, name, queue = consumer.props, consumer.props.name, consumer.queue

    def of(metric: str, label: str, **options: Any) -> cloudwatch.Metric:
        return once_metric(consumer.full_name, metric, label=label, **options)

    if props.has_effects:
        yield _graph(
            f"{name}: effects",
            of(Metric.EFFECTS_DONE, "done"),
            of(Metric.EFFECTS_NOT_DONE, "not done"),
            of(Metric.EFFECTS_UNKNOWN, "unknown"),
            right=[of(Metric.PENDING_SECONDS, "pending, seconds", statistic=MAXIMUM)],
        )
    if props.fifo:
        # A group in flight waits for the messages that were received from it.
        in_flight = "ApproximateNumberOfGroupsWithInflightMessages"
        yield _graph(f"{name}: groups", of_groups(queue, in_flight, label="groups in flight"))
    elif props.fair_by is not None:
        waiting = "ApproximateNumberOfMessagesVisibleInQuietGroups"
        quiet_for = {"quiet groups wait": monitoring.WAIT_ALARM_SECONDS}
        yield _graph(
            f"{name}: groups",
            of_groups(queue, monitoring.QUIET_AGE, label="oldest in quiet groups, seconds"),
            right=[
                of_groups(queue, waiting, label="waiting in quiet groups"),
                of_groups(queue, "ApproximateNumberOfNoisyGroups", label="noisy groups"),
            ],
            thresholds=quiet_for,
        )
    if consumer.takes_due:
        late = of(Metric.DUE_LATE_MS, "due events late, ms", statistic=MAXIMUM)
        yield _graph(f"{name}: due events", late, thresholds={"late": monitoring.LATE_MS})


def _colour(number: int) -> str:
    """Return the colour of a part, the same in each graph; red is that of thresholds."""
    colour = cloudwatch.Color
    several = (colour.BLUE, colour.ORANGE, colour.GREEN, colour.PURPLE)
    every = (*several, colour.BROWN, colour.PINK, colour.GREY, _CYAN)
    return every[number % len(every)]


def _visible(queue: sqs.IQueue, **shown: Any) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(**shown)


def _all_of(prefix: str, queues: Iterable[sqs.IQueue], **shown: Any) -> cloudwatch.MathExpression:
    """Return the number of messages in some queues, visible or hidden."""
    used = [
        metric
        for queue in queues
        for metric in (
            queue.metric_approximate_number_of_messages_visible(),
            queue.metric_approximate_number_of_messages_not_visible(),
        )
    ]
    return _sum({f"{prefix}_{number}": each for number, each in enumerate(used)}, **shown)


def _sum(metrics: Mapping[str, cloudwatch.IMetric], **shown: Any) -> cloudwatch.MathExpression:
    """Return the sum of metrics. `SUM` of a list passes over those without data."""
    expression = f"SUM([{', '.join(metrics)}])"
    return cloudwatch.MathExpression(expression=expression, using_metrics=metrics, **shown)


def _graph(
    title: str,
    *metrics: cloudwatch.IMetric,
    right: Iterable[cloudwatch.IMetric] = (),
    thresholds: Mapping[str, int] = {},
    width: int = _WIDTH,
) -> cloudwatch.IWidget:
    """Return a graph; `thresholds` are those of alarms on the metrics of the left axis, by name."""
    from_zero = cloudwatch.YAxisProps(min=0)  # otherwise small changes look large
    return cloudwatch.GraphWidget(
        title=title,
        left=list(metrics),
        right=list(right),
        left_annotations=[
            cloudwatch.HorizontalAnnotation(value=value, label=label, color=cloudwatch.Color.RED)
            for label, value in thresholds.items()
        ],
        left_y_axis=from_zero,
        right_y_axis=from_zero,
        width=width,
    )
