"""The alarms of each part of the service, and the topic that they notify.

Each alarm names, in its description, the entry of the runbook that says what to do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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

from once.cdk.deployment_options import DeploymentConfig, imported_key
from once.cdk.monitoring.metrics import (
    FAILED_BATCHES,
    MAXIMUM,
    SUM,
    MonitoredConsumer,
    QueueGroups,
    groups_metric,
    mapping_metric,
    once_metric,
)
from once.names import Limits, Metric

_RUNBOOK = "docs/runbook.md"

_MINUTE = Duration.minutes(1)
_MOMENT = Duration.minutes(5)
_WHILE = Duration.minutes(15)
_HOUR = Duration.hours(1)

_OLD_LETTERS_HOURS = 4 * 24
"""Four days of the 14 that a letter is kept. A letter that SQS moved may already be eight days old
when it arrives: two days are left then."""
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
    ("ConflictsAlarm", Metric.CONFLICTS, _DONE, "conflicts", "commits are in each other's way"),
    ("ResentAlarm", Metric.RESENT, _WORKED_ON, "resent-duplicates", "producers send events twice"),
    (
        "RedeliveredAlarm",
        Metric.REDELIVERED,
        _WORKED_ON,
        "redelivered-duplicates",
        "SQS delivers again what is done",
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


def add_consumer_alarms(
    scope: Construct, consumer: MonitoredConsumer, *, local: bool
) -> list[cloudwatch.IAlarm]:
    """Add the alarms of a consumer, and return those that a faulty new version sets off.

    With `local` those on shares and on the mapping are left out: the embedded AWS rejects metric
    math.
    """
    alarms = _Alarms(scope, consumer.service, local)
    new_letters = alarms.on_dead_letters(consumer.dead_letters, "dead-letters")
    alarms.on_age(consumer.queue)
    if consumer.isolation is not None:
        alarms.on_age(consumer.isolation, "isolated messages", part="IsolationAgeAlarm")
    if consumer.props.blocks_group:
        age, what = _oldest(consumer.queue), "a message may hold up its group"
        alarms.add("BlockedAlarm", age, WAIT_ALARM_SECONDS, "blocked-message-group", what)
    if consumer.props.fair_by is not None:
        quiet = groups_metric(consumer.queue, QueueGroups.OLDEST_IN_QUIET, _MINUTE)
        what = "even groups with few messages wait"
        alarms.add("QuietGroupsAlarm", quiet, WAIT_ALARM_SECONDS, "quiet-groups-wait", what)
    waits = once_metric(consumer.service, Metric.BREAKER_OPEN, _MOMENT)
    faulty = [
        new_letters,
        alarms.add("BreakerAlarm", waits, 1, "breaker-open", "messages wait for what is down"),
        alarms.on_function(consumer.function),
    ]
    if consumer.props.has_effects:
        late = once_metric(consumer.service, Metric.PENDING_SECONDS, _MOMENT, MAXIMUM)
        what = "an effect has had no outcome for an hour"
        alarms.add("PendingAlarm", late, _PENDING_SECONDS, "pending-effects", what)
        unknown = once_metric(consumer.service, Metric.EFFECTS_UNKNOWN, _MOMENT)
        what = "an effect may have been done, or not"
        alarms.add("UnknownAlarm", unknown, 1, "unknown-effects", what)
    if local:
        return faulty
    for part, counted, total, entry, what in _SHARES:
        alarms.add(part, _percent(consumer.service, counted, total), _FAR_ABOVE_NORMAL, entry, what)
    if consumer.mapping is not None:
        mapping = consumer.mapping
        lost = cloudwatch.MathExpression(
            expression="IF(FILL(invoked, 0) == 0, received, 0)",
            using_metrics={
                "received": mapping_metric("PolledEventCount", mapping, _MOMENT),
                "invoked": mapping_metric("InvokedEventCount", mapping, _MOMENT),
            },
            period=_MOMENT,
            label="messages",
        )
        what = "messages are received and the function never gets them"
        # A message may be received at the end of one period and handed over in the next: two
        # periods in a row without a hand-over are none of these.
        alarms.add("HandOverAlarm", lost, 1, "messages-not-handed-over", what, periods=2)
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
    alarms = _Alarms(scope, name, local)
    alarms.on_dead_letters(dead_letters, "relay-dead-letters")
    age = function.metric("IteratorAge", period=_MINUTE, statistic=MAXIMUM)
    alarms.add("AgeAlarm", age, _STREAM_AGE_MS, "relay-behind", "events are published late")
    failed = mapping_metric(FAILED_BATCHES, mapping, _MINUTE)
    what = "unpublished records lie in the bucket"
    alarms.add("FailuresAlarm", failed, 1, "relay-failed-batches", what)


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
    alarms = _Alarms(scope, name, local)
    alarms.on_letters(unrouted)
    kept = _messages(unrouted, _MINUTE, local=local)
    alarms.add("UnroutedAlarm", kept, 1, "unrouted-events", "published events reached no consumer")
    alarms.on_age(sweep)
    alarms.on_function(function)


def add_ingress_alarms(
    scope: Construct, name: str, function: lambda_.IFunction, *, local: bool
) -> None:
    """Alarm when webhooks are not captured, not handed on, or rejected in numbers."""
    alarms = _Alarms(scope, name, local)
    for part, metric, threshold, entry, what in _WEBHOOK_COUNTS:
        alarms.add(part, once_metric(name, metric, _WHILE), threshold, entry, what)
    for part, metric, what in _REJECTIONS:
        alarms.add(part, once_metric(name, metric, _HOUR), _REJECTED, "webhooks-rejected", what)
    alarms.on_function(function)


def add_table_alarms(scope: Construct, name: str, table: dynamodb.ITable) -> None:
    """Alarm when the dedup table delays commits, each of which writes to it."""
    alarms = _Alarms(scope, name)
    for kind, them in (("Read", "reads"), ("Write", "writes")):
        throttled = table.metric(f"{kind}ThrottleEvents", period=_WHILE, statistic=SUM)
        what = f"DynamoDB throttles {them}"
        alarms.add(f"Dedup{kind}sAlarm", throttled, _ENOUGH, "table-throttled", what)
    conflicts = table.metric("TransactionConflict", period=_WHILE, statistic=SUM)
    what = "the same events are worked on in parallel"
    alarms.add("DedupConflictsAlarm", conflicts, _ENOUGH, "table-conflicts", what)


@dataclass(frozen=True, slots=True)
class _Alarms:
    """The alarms of one part of the service; `name` is what their descriptions call it."""

    scope: Construct
    name: str
    local: bool = False

    def add(
        self,
        part: str,
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
            part,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            # An idle queue reports nothing, and idle is not a fault.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=f"{self.name}: {what}. {_RUNBOOK}#{entry}",
        )

    def on_dead_letters(self, dead_letters: sqs.IQueue, entry: str) -> cloudwatch.IAlarm:
        """Alarm on present, new and old dead letters; return the alarm on new ones."""
        dead = _messages(dead_letters, _MINUTE, local=self.local)
        self.add("DeadLettersAlarm", dead, 1, entry, "dead letters wait for a decision")
        return self.on_letters(dead_letters)

    def on_letters(self, queue: sqs.IQueue) -> cloudwatch.IAlarm:
        """Alarm on new and on old letters of a queue; return the former."""
        # Not the age of the oldest message: SQS leaves out messages that were received three times,
        # and each look at a letter is a receive.
        there = _messages(queue, _HOUR, local=self.local)
        what = "letters have been there for four days and are deleted after 14"
        self.add("OldLettersAlarm", there, 1, "old-dead-letters", what, _OLD_LETTERS_HOURS)
        # Not a change of the number of letters, which is approximate. A letter that SQS moved by
        # itself does not count here: the function's errors or throttles come first.
        sent = queue.metric_number_of_messages_sent(period=_MOMENT, statistic=SUM)
        what = "letters have arrived, perhaps beside others"
        return self.add("NewLettersAlarm", sent, 1, "new-dead-letters", what)

    def on_age(self, queue: sqs.IQueue, kept: str = "messages", part: str = "AgeAlarm") -> None:
        """Alarm on a message that is old enough to be deleted soon."""
        what = f"SQS will soon delete {kept}"
        self.add(part, _oldest(queue), _AGE_SECONDS, "old-messages", what)

    def on_function(self, function: lambda_.IFunction) -> cloudwatch.IAlarm:
        """Alarm on throttles and errors; return the latter."""
        throttles = function.metric_throttles(period=_WHILE, statistic=SUM)
        what = "Lambda has no room for it"
        self.add("ThrottlesAlarm", throttles, _THROTTLES, "function-throttled", what)
        errors = function.metric_errors(period=_WHILE, statistic=SUM)
        what = "the function fails as a whole"
        return self.add("ErrorsAlarm", errors, _ERRORS, "function-errors", what)


def _oldest(queue: sqs.IQueue) -> cloudwatch.Metric:
    return queue.metric_approximate_age_of_oldest_message(period=_MINUTE, statistic=MAXIMUM)


def _percent(service: str, counted: str, total: Sequence[str]) -> cloudwatch.MathExpression:
    """Return the share of a metric in a total; 0 where its own figure is too small for a share.

    The counted metric is part of the total. The divisor is therefore never zero, which would give
    no figure if every commit conflicts.
    """
    others = [once_metric(service, other, _WHILE) for other in total if other != counted]
    named = {f"other{number}": other for number, other in enumerate(others)}
    # A metric without events has no data, and a sum with missing data has none either.
    whole = " + ".join(["counted", *(f"FILL({name}, 0)" for name in named)])
    return cloudwatch.MathExpression(
        expression=f"IF(counted >= {_ENOUGH}, 100 * counted / ({whole}), 0)",
        using_metrics={"counted": once_metric(service, counted, _WHILE), **named},
        period=_WHILE,
        label=f"{counted}, percent",
    )


def _messages(
    queue: sqs.IQueue, period: Duration, *, local: bool
) -> cloudwatch.Metric | cloudwatch.MathExpression:
    """Return the number of messages in a queue, those that a command hides included.

    Without the hidden ones, an alarm would end and begin again with every look at the letters. The
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


def make_alarm_topic(scope: Construct, config: DeploymentConfig | None = None) -> sns.Topic:
    """Return an encrypted topic to which the alarms of this account and region may publish.

    Operators subscribe to it.

    Args:
        scope: the stack.
        config: the deployment; by default that of the CDK context.
    """
    config = config or DeploymentConfig.from_context(scope.node)
    cloudwatch_itself = iam.ServicePrincipal("cloudwatch.amazonaws.com")
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
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                principals=[cloudwatch_itself],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],  # in a key's own policy: this key
            )
        )
    topic = sns.Topic(scope, "Alarms", master_key=key, enforce_ssl=True)
    alarms = Stack.of(scope).format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name="*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    # An explicit policy replaces the default policy, by which the account itself may publish.
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid="Alarms",
            principals=[cloudwatch_itself],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"ArnLike": {"aws:SourceArn": alarms}},
        )
    )
    return topic


def notify(topic: sns.ITopic, tree: Iterable[IConstruct]) -> None:
    """Let every alarm in the tree notify the topic when it begins and when it ends."""
    action = actions.SnsAction(topic)
    for construct in tree:
        if isinstance(construct, cloudwatch.Alarm):
            construct.add_alarm_action(action)
            construct.add_ok_action(action)
