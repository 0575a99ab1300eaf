"""Alarms and graphs of each part of the service, and the topic that the alarms notify.

Each part adds its alarms and returns its row of the dashboard. An alarm names, in its description,
the entry of the runbook that says what to do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from once.cdk._lambda_function import FunctionConstruct, Row
from once.cdk._queues import ConsumerQueues
from once.cdk.deployment_options import DeploymentConfig, imported_key
from once.cdk.permissions import allow
from once.cdk.props import ConsumerProps
from once.names import RELAY, UNROUTED, Limits, Metric, page_url

SUM = "Sum"
MAXIMUM = "Maximum"
AVERAGE = "Average"
FAILED_BATCHES = "OnFailureDestinationDeliveredEventCount"
"""The stream batches that were written into the bucket, unpublished."""

_MINUTE = Duration.minutes(1)
_MOMENT = Duration.minutes(5)
_WHILE = Duration.minutes(15)
_HOUR = Duration.hours(1)

_OLD_HOURS = 4 * 24
"""Four days of the 14 that a dead letter is kept. One that SQS moved may be eight days old when it
arrives: two days are left then."""
_AGE_SECONDS = Limits.QUEUE_RETENTION_SECONDS // 2
"""Half the retention: a weekend must fit between the alarm and the deletion of the message."""
WAIT_ALARM_SECONDS = 15 * 60
"""The longest delay of one retry. A group waits for longer only if its messages keep failing, or if
the function has too little capacity."""
_STREAM_AGE_MS = 60 * 60 * 1000
"""One hour. A batch of the relay fails for good after 12 hours, and the stream keeps it for 24."""
_PENDING_SECONDS = 60 * 60
"""One hour of the 23 in which a provider key is used: an operator still has time to act."""
_FAR_ABOVE_NORMAL = 20
"""Percent. The group size is adapted so that 10 % of the work is repeated; this is twice that."""
_ENOUGH = 100
"""Fewer in 15 minutes may be chance, whatever their share: one burst, or one hot item."""
_ERRORS = 3
"""A redelivery handles a single crash. A function that cannot start reaches this number before its
first message is dead-lettered, after five receives."""
_THROTTLES = Limits.MIN_RECEIVE_COUNT
"""Each throttle spends a receive: this many can dead-letter a message that was never tried."""
_REJECTED = 10
"""In an hour. A guessed request, or one that was under way for long, is no fault; a wrong secret
rejects every request, and providers send each several times an hour."""

_DONE = (Metric.COMMITTED, Metric.REFUSED)
_WORKED_ON = (*_DONE, Metric.RESENT, Metric.REDELIVERED, Metric.REDRIVEN)
_SHARES = (
    ("ConflictsAlarm", Metric.CONFLICTS, _DONE, "conflicts", "commits conflict with one another"),
    ("ResentAlarm", Metric.RESENT, _WORKED_ON, "resent-duplicates", "producers send events twice"),
    (
        "RedeliveredAlarm",
        Metric.REDELIVERED,
        _WORKED_ON,
        "redelivered-duplicates",
        "SQS delivers committed messages again",
    ),
)
"""Alarm, counted metric, metrics of the total, entry of the runbook, meaning. Duplicates that an
operator has redriven raise no alarm."""

_WEBHOOK_COUNTS = (
    (
        "FailedAlarm",
        Metric.WEBHOOKS_FAILED,
        _ERRORS,
        "webhooks-failed",
        "webhooks are not captured",
    ),
    ("ConflictsAlarm", Metric.WEBHOOK_CONFLICTS, 1, "webhook-conflicts", "one key, two webhooks"),
    ("UnreadableAlarm", Metric.WEBHOOKS_UNREADABLE, 1, "webhooks-unreadable", "not handed on"),
    (
        "UnpublishableAlarm",
        Metric.WEBHOOKS_UNPUBLISHABLE,
        1,
        "webhooks-unreadable",
        "no event could be made",
    ),
    ("TooLargeAlarm", Metric.WEBHOOKS_TOO_LARGE, 1, "webhooks-too-large", "webhooks are refused"),
)
"""Alarm, counted metric, threshold in 15 minutes, entry of the runbook, meaning."""
_REJECTIONS = (
    ("ForgedAlarm", Metric.WEBHOOKS_FORGED, "no secret of the endpoint gives their signatures"),
    ("StaleAlarm", Metric.WEBHOOKS_STALE, "their signatures are too old, or a clock is wrong"),
)
"""Alarm, counted metric, meaning."""
_WIDTH = 4
"""Of the 24 columns: a row holds up to six graphs, and those of one kind stand in one column."""


def monitor_consumer(
    consumer: FunctionConstruct,
    props: ConsumerProps,
    queues: ConsumerQueues,
    mapping: lambda_.IEventSourceMapping | None,
) -> tuple[Row, list[cloudwatch.IAlarm]]:
    """Add the alarms of a consumer; return its row, and the alarms that a faulty version sets off.

    `mapping` is None if another tool makes it. The row shows queue, outcomes, conflicts, time,
    function and effects.
    """
    part, name, function = _Part.of(consumer), props.name, consumer.function
    queue, isolation, dead_letters = queues.main, queues.isolation, queues.dead_letters
    waiting = [_visible(queue, "waiting")]
    oldest = [queue.metric_approximate_age_of_oldest_message(label="oldest, seconds")]
    new_dead = part.on_dead_letters(dead_letters, "dead-letters")
    part.on_age(queue)
    if isolation is not None:
        part.on_age(isolation, "isolated messages", alarm="IsolationAgeAlarm")
        waiting.append(_visible(isolation, "isolated"))
    if props.blocks_group:
        age, what = _oldest(queue), "a message may hold up its group"
        part.add("BlockedAlarm", age, WAIT_ALARM_SECONDS, "blocked-message-group", what)
    if props.fifo:
        # A group in flight waits for the messages that were received from it.
        in_flight = "ApproximateNumberOfGroupsWithInflightMessages"
        waiting.append(_groups(queue, in_flight, label="groups in flight"))
    elif props.fair_by is not None:
        # A group is noisy while it has a large share of the messages in flight. All others are
        # quiet: on a fair queue, theirs are received first.
        quiet = "ApproximateAgeOfOldestMessageInQuietGroups"
        age, what = _groups(queue, quiet, period=_MINUTE), "even groups with few messages wait"
        part.add("QuietGroupsAlarm", age, WAIT_ALARM_SECONDS, "quiet-groups-wait", what)
        in_quiet = "ApproximateNumberOfMessagesVisibleInQuietGroups"
        waiting.append(_groups(queue, in_quiet, label="waiting in quiet groups"))
        waiting.append(_groups(queue, "ApproximateNumberOfNoisyGroups", label="noisy groups"))
        oldest.append(_groups(queue, quiet, label="oldest in quiet groups, seconds"))
    waits = part.metric(Metric.BREAKER_OPEN)
    faulty = [
        new_dead,
        part.add("BreakerAlarm", waits, 1, "breaker-open", "a dependency fails, messages wait"),
        part.on_function(function),
    ]
    row = [
        _graph(f"{name}: queue", *waiting, _visible(dead_letters, "dead letters"), right=oldest),
        _graph(
            f"{name}: messages",
            part.metric(Metric.COMMITTED, label="committed"),
            part.metric(Metric.REFUSED, label="refused"),
            part.metric(Metric.RESENT, label="sent again"),
            part.metric(Metric.REDELIVERED, label="delivered again"),
            part.metric(Metric.REDRIVEN, label="redriven again"),
            part.metric(Metric.BREAKER_OPEN, label="held back"),
            *([part.metric(Metric.ISOLATED, label="isolated")] if isolation else []),
        ),
        _graph(
            f"{name}: conflicts",
            part.metric(Metric.CONFLICTS, label="conflicts"),
            right=[part.metric(Metric.GROUP_SIZE, label="group size", statistic=AVERAGE)],
        ),
        part.times(f"{name}: commit, ms", Metric.COMMIT_MS),
        _function(name, function),
    ]
    if props.has_effects:
        row.append(part.on_effects(name))
    if not part.local:  # the embedded AWS rejects metric math
        for alarm, counted, total, entry, what in _SHARES:
            part.add(alarm, part.percent(counted, total), _FAR_ABOVE_NORMAL, entry, what)
        if props.mapping_metrics and mapping is not None:
            part.on_hand_over(mapping)
    return row, faulty


def monitor_relay(
    relay: FunctionConstruct, dead_letters: sqs.IQueue, mapping: lambda_.IEventSourceMapping
) -> Row:
    """Alarm when an event was dead-lettered, a batch has failed, and when publishing falls behind.

    There is none on the function's errors: it raises an error to receive a batch again, and any
    lasting cause shows in the age of the batch. The row shows delay, published events, unpublished
    ones, and the function.
    """
    part, function = _Part.of(relay), relay.function
    part.on_dead_letters(dead_letters, "relay-dead-letters")
    age = function.metric("IteratorAge", period=_MINUTE, statistic=MAXIMUM)
    part.add("AgeAlarm", age, _STREAM_AGE_MS, "relay-behind", "events are published late")
    failed = _mapping(FAILED_BATCHES, mapping, period=_MINUTE)
    what = "unpublished records lie in the bucket"
    part.add("FailuresAlarm", failed, 1, "relay-failed-batches", what)
    return [
        _graph(
            f"{RELAY}: behind, ms",
            part.metric(Metric.RELAY_LAG_MS, label="commit to topic", statistic=MAXIMUM),
            function.metric(
                "IteratorAge", period=_MOMENT, statistic=MAXIMUM, label="in the stream"
            ),
        ),
        _graph(f"{RELAY}: events", part.metric(Metric.PUBLISHED, label="published")),
        _graph(
            f"{RELAY}: left over",
            _visible(dead_letters, "dead letters"),
            _mapping(FAILED_BATCHES, mapping, label="failed batches"),
        ),
        _function(RELAY, function),
    ]


def monitor_unrouted(sweeping: FunctionConstruct, unrouted: sqs.IQueue, sweep: sqs.IQueue) -> Row:
    """Alarm when an event reached no consumer, and when the sweep function fails.

    The row shows the kept events, the queue they are found in, and the function.
    """
    part, function = _Part.of(sweeping), sweeping.function
    part.on_kept(unrouted)
    kept = _messages(unrouted, _MINUTE, local=part.local)
    part.add("UnroutedAlarm", kept, 1, "unrouted-events", "published events reached no consumer")
    part.on_age(sweep)
    part.on_function(function)
    shown = [_visible(unrouted, "kept"), _visible(sweep, "not yet looked at")]
    return [_graph(f"{UNROUTED}: events", *shown), _function(UNROUTED, function)]


def monitor_ingress(ingress: FunctionConstruct) -> Row:
    """Alarm when webhooks are not captured, not handed on, or rejected in large numbers.

    The row shows webhooks, those not handed on, time, and the function.
    """
    part, name, function = _Part.of(ingress), ingress.node.id, ingress.function
    for alarm, metric, threshold, entry, what in _WEBHOOK_COUNTS:
        part.add(alarm, part.metric(metric, period=_WHILE), threshold, entry, what)
    for alarm, metric, what in _REJECTIONS:
        part.add(alarm, part.metric(metric, period=_HOUR), _REJECTED, "webhooks-rejected", what)
    part.on_function(function)
    return [
        _graph(
            f"{name}: webhooks",
            part.metric(Metric.WEBHOOKS_TAKEN, label="taken"),
            part.metric(Metric.WEBHOOK_DUPLICATES, label="sent again"),
            part.metric(Metric.WEBHOOK_CONFLICTS, label="conflicts"),
            part.metric(Metric.WEBHOOKS_UNREADABLE, label="unreadable"),
            part.metric(Metric.WEBHOOKS_UNPUBLISHABLE, label="unpublishable"),
        ),
        _graph(
            f"{name}: refused",
            part.metric(Metric.WEBHOOKS_FORGED, label="forged"),
            part.metric(Metric.WEBHOOKS_STALE, label="stale"),
            part.metric(Metric.WEBHOOKS_TOO_LARGE, label="too large"),
            part.metric(Metric.WEBHOOKS_FAILED, label="failed"),
        ),
        part.times(f"{name}: answer, ms", Metric.WEBHOOK_MS),
        _function(name, function),
    ]


def add_table_alarms(scope: Construct, name: str, table: dynamodb.ITable) -> None:
    """Alarm when the dedup table delays commits, each of which writes to it."""
    part = _Part(scope, name)
    for kind, them in (("Read", "reads"), ("Write", "writes")):
        throttled = table.metric(f"{kind}ThrottleEvents", period=_WHILE, statistic=SUM)
        what = f"DynamoDB throttles {them}"
        part.add(f"Dedup{kind}sAlarm", throttled, _ENOUGH, "table-throttled", what)
    conflicts = table.metric("TransactionConflict", period=_WHILE, statistic=SUM)
    what = "deliveries of the same events run at once"
    part.add("DedupConflictsAlarm", conflicts, _ENOUGH, "table-conflicts", what)


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
                table.metric(metric, period=_MOMENT, statistic=SUM, label=name)
                for name, table in tables.items()
            ),
        )
        for what, metric in shown.items()
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """The alarms and metrics of one part of the service; `name` is its function's full name."""

    scope: Construct
    name: str
    local: bool = False

    @classmethod
    def of(cls, construct: FunctionConstruct) -> Self:
        return cls(construct, construct.full_name, construct.config.local)

    def metric(self, metric: str, **options: Any) -> cloudwatch.Metric:
        """Return a metric that the library emits: by default its sum in five minutes."""
        # The only dimension: CloudWatch bills each further value.
        service = {"service": self.name}
        return _metric(Metric.NAMESPACE, metric, service, **options)

    def times(self, title: str, metric: str) -> cloudwatch.IWidget:
        """Return the graph of a duration: its median, and the longest but for one percent."""
        shown = [self.metric(metric, label=each, statistic=each) for each in ("p50", "p99")]
        return _graph(title, *shown)

    def add(
        self,
        alarm: str,
        metric: cloudwatch.IMetric,
        threshold: int,
        entry: str,
        what: str,
        periods: int = 1,
    ) -> cloudwatch.IAlarm:
        """Alarm from the threshold on; `entry` is the anchor in the runbook.

        With several `periods`, the threshold must be reached in each of them.
        """
        return cloudwatch.Alarm(
            self.scope,
            alarm,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            # An idle queue reports nothing, and idle is not a fault.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=f"{self.name}: {what}. {page_url(f'runbook#{entry}')}",
        )

    def on_dead_letters(self, dead_letters: sqs.IQueue, entry: str) -> cloudwatch.IAlarm:
        """Alarm on present, new and old dead letters; return the alarm on new ones."""
        dead = _messages(dead_letters, _MINUTE, local=self.local)
        self.add("DeadLettersAlarm", dead, 1, entry, "dead letters wait for a decision")
        return self.on_kept(dead_letters)

    def on_kept(self, queue: sqs.IQueue) -> cloudwatch.IAlarm:
        """Alarm on new and on old messages of such a queue; return the former."""
        # Not the age of the oldest message: SQS leaves out messages that were received three times,
        # and each look at a dead letter is a receive.
        there = _messages(queue, _HOUR, local=self.local)
        what = "dead letters have been there for four days and are deleted after 14"
        self.add("OldLettersAlarm", there, 1, "old-dead-letters", what, _OLD_HOURS)
        # Not a change of the number of messages, which is approximate. One that SQS moved by
        # itself does not count here: the function's errors or throttles come first.
        sent = queue.metric_number_of_messages_sent(period=_MOMENT, statistic=SUM)
        what = "dead letters have arrived, perhaps beside others"
        return self.add("NewLettersAlarm", sent, 1, "new-dead-letters", what)

    def on_age(self, queue: sqs.IQueue, kept: str = "messages", alarm: str = "AgeAlarm") -> None:
        """Alarm on a message that is old enough to be deleted soon."""
        what = f"SQS will soon delete {kept}"
        self.add(alarm, _oldest(queue), _AGE_SECONDS, "old-messages", what)

    def on_function(self, function: lambda_.IFunction) -> cloudwatch.IAlarm:
        """Alarm on throttles and errors; return the latter."""
        throttles = function.metric_throttles(period=_WHILE, statistic=SUM)
        what = "Lambda has no room for it"
        self.add("ThrottlesAlarm", throttles, _THROTTLES, "function-throttled", what)
        errors = function.metric_errors(period=_WHILE, statistic=SUM)
        what = "the function fails as a whole"
        return self.add("ErrorsAlarm", errors, _ERRORS, "function-errors", what)

    def on_effects(self, name: str) -> cloudwatch.IWidget:
        """Alarm on effects without a known outcome; return the graph of all effects."""
        late = self.metric(Metric.PENDING_SECONDS, statistic=MAXIMUM)
        what = "an effect has had no outcome for an hour"
        self.add("PendingAlarm", late, _PENDING_SECONDS, "pending-effects", what)
        unknown, what = self.metric(Metric.EFFECTS_UNKNOWN), "an effect may have been done, or not"
        self.add("UnknownAlarm", unknown, 1, "unknown-effects", what)
        pending = {"label": "pending, seconds", "statistic": MAXIMUM}
        return _graph(
            f"{name}: effects",
            self.metric(Metric.EFFECTS_DONE, label="done"),
            self.metric(Metric.EFFECTS_NOT_DONE, label="not done"),
            self.metric(Metric.EFFECTS_UNKNOWN, label="unknown"),
            right=[self.metric(Metric.PENDING_SECONDS, **pending)],
        )

    def on_hand_over(self, mapping: lambda_.IEventSourceMapping) -> None:
        """Alarm on messages that Lambda received and did not hand over."""
        lost = cloudwatch.MathExpression(
            expression="IF(FILL(invoked, 0) == 0, received, 0)",
            using_metrics={
                "received": _mapping("PolledEventCount", mapping),
                "invoked": _mapping("InvokedEventCount", mapping),
            },
            period=_MOMENT,
            label="messages",
        )
        what = "messages are received and the function never gets them"
        # A message may be received at the end of one period and handed over in the next: two
        # periods in a row without a hand-over are none of these.
        self.add("HandOverAlarm", lost, 1, "messages-not-handed-over", what, periods=2)

    def percent(self, counted: str, total: Sequence[str]) -> cloudwatch.MathExpression:
        """Return the share of a metric in a total; 0 where its own figure is too small for a share.

        The counted metric is part of the total. The divisor is therefore never zero, which would
        give no figure if every commit conflicts.
        """
        others = [self.metric(other, period=_WHILE) for other in total if other != counted]
        named = {f"other{number}": other for number, other in enumerate(others)}
        # A metric without events has no data, and a sum with missing data has none either.
        whole = " + ".join(["counted", *(f"FILL({name}, 0)" for name in named)])
        return cloudwatch.MathExpression(
            expression=f"IF(counted >= {_ENOUGH}, 100 * counted / ({whole}), 0)",
            using_metrics={"counted": self.metric(counted, period=_WHILE), **named},
            period=_WHILE,
            label=f"{counted}, percent",
        )


def _metric(
    namespace: str, name: str, dimensions: dict[str, str], **options: Any
) -> cloudwatch.Metric:
    of = {"namespace": namespace, "metric_name": name, "dimensions_map": dimensions}
    return cloudwatch.Metric(**{"period": _MOMENT, "statistic": SUM, **of, **options})


def _groups(queue: sqs.IQueue, name: str, **options: Any) -> cloudwatch.Metric:
    """Return a metric of SQS on a queue's message groups, for which the CDK has no methods."""
    of_queue = {"QueueName": queue.queue_name}
    return _metric("AWS/SQS", name, of_queue, statistic=MAXIMUM, **options)


def _mapping(name: str, mapping: lambda_.IEventSourceMapping, **options: Any) -> cloudwatch.Metric:
    of_mapping = {"EventSourceMappingUUID": mapping.event_source_mapping_id}
    return _metric("AWS/Lambda", name, of_mapping, **options)


def _oldest(queue: sqs.IQueue) -> cloudwatch.Metric:
    return queue.metric_approximate_age_of_oldest_message(period=_MINUTE, statistic=MAXIMUM)


def _messages(
    queue: sqs.IQueue, period: Duration, *, local: bool
) -> cloudwatch.Metric | cloudwatch.MathExpression:
    """Return the number of messages in a queue, those that a command hides included.

    Without the hidden ones, an alarm would end and begin again with every look at them. The
    embedded AWS rejects metric math: with `local`, only visible messages count.
    """
    visible = queue.metric_approximate_number_of_messages_visible(period=period, statistic=MAXIMUM)
    hidden = queue.metric_approximate_number_of_messages_not_visible(
        period=period, statistic=MAXIMUM
    )
    if local:
        return visible
    return cloudwatch.MathExpression(
        expression="visible + hidden",
        using_metrics={"visible": visible, "hidden": hidden},
        period=period,
        label="messages",
    )


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


def make_alarm_topic(scope: Construct, config: DeploymentConfig | None = None) -> sns.Topic:
    """Return an encrypted topic to which the alarms of this account and region may publish.

    Operators subscribe to it.
    """
    config = config or DeploymentConfig.from_context(scope.node)
    by_alarms = iam.ServicePrincipal("cloudwatch.amazonaws.com")
    key = imported_key(scope, config.keys.topics)
    if key is None:
        # CloudWatch may not use the AWS managed key of SNS: it would drop notifications silently.
        key = kms.Key(
            scope,
            "AlarmKey",
            description="Once: encrypts what alarms say on their way to subscribers",
            enable_key_rotation=True,
            # It encrypts no stored data.
            removal_policy=RemovalPolicy.DESTROY,
        )
        use = ["kms:Decrypt", "kms:GenerateDataKey*"]
        # In a key's own policy, `*` is this key.
        key.add_to_resource_policy(allow("Alarms", use, "*", principal=by_alarms))
    topic = sns.Topic(scope, "Alarms", master_key=key, enforce_ssl=True)
    alarms = Stack.of(scope).format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name="*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    # An explicit policy replaces the default policy, by which the account itself may publish.
    only, arn = {"ArnLike": {"aws:SourceArn": alarms}}, topic.topic_arn
    publish = allow("Alarms", ["sns:Publish"], arn, conditions=only, principal=by_alarms)
    topic.add_to_resource_policy(publish)
    return topic


def notify(topic: sns.ITopic, tree: Iterable[IConstruct]) -> None:
    """Let every alarm in the tree notify the topic when it begins and when it ends."""
    action = actions.SnsAction(topic)
    for construct in tree:
        if isinstance(construct, cloudwatch.Alarm):
            construct.add_alarm_action(action)
            construct.add_ok_action(action)
