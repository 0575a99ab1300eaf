"""Alarms of each part of the service, and the topic that they notify.

Without `alarms="all"` of the
deployment, an alarm is an incident on which a person can act; docs/adr/0080 has the reason of each.
Its description says how soon, the first step, and the entry of the runbook.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from once.cdk._lambda_function import FunctionConstruct
from once.cdk._queues import ConsumerQueues
from once.cdk.deployment_options import ALL, DeploymentConfig, imported_key
from once.cdk.permissions import allow
from once.cdk.props import ConsumerProps, Rollout
from once.names import Limits, Metric, explained_by

SUM = "Sum"
MAXIMUM = "Maximum"
MINIMUM = "Minimum"
AVERAGE = "Average"
FAILED_BATCHES = "OnFailureDestinationDeliveredEventCount"
"""The stream batches that were written into the bucket, unpublished."""
QUIET_AGE = "ApproximateAgeOfOldestMessageInQuietGroups"

_MINUTE = Duration.minutes(1)
MOMENT = Duration.minutes(5)
WHILE = Duration.minutes(15)
_HOUR = Duration.hours(1)

NOW, TODAY = "now", "today"
"""Urgency of an alarm: a part of its name, and the first word of its description."""
AGE_SECONDS = 60 * 60
"""One hour of the four days after which SQS deletes a message."""
WAIT_ALARM_SECONDS = 15 * 60
"""The longest delay of one retry. A quiet group waits for longer only if the function has too
little capacity, or fails."""
_STREAM_AGE_MS = 60 * 60 * 1000
"""One hour. A batch of the relay fails for good after 12 hours, and the stream keeps it for 24."""
_SILENT_PERIODS = 4
"""One hour: CloudWatch may have gaps too, and a new mapping begins within minutes."""
_DUE_ERRORS = 3
"""In five minutes. Scheduler repeats a failed attempt; one that fails again is no chance."""
LATE_MS = 15 * 60 * 1000
"""Scheduler publishes within a minute of the due time, and a message waits for a retry of its queue
for 15 minutes at most."""
_NEVER = 10**9
"""Above every figure: only missing data set such an alarm off."""
_PENDING_SECONDS = 60 * 60
"""One hour of the 23 in which a provider key is used: an operator still has time to act."""
_LETTERS_PERIODS = 72
"""Six hours of five minutes: letters that keep arriving are one incident."""
RETRIES = Limits.MIN_RECEIVE_COUNT
"""In 15 minutes. A single message has fewer before its last receive, and is a dead letter then."""
_RETRIES_PERIODS = 4
"""An hour, in which messages that are retried again are the same incident."""
_FAR_ABOVE_NORMAL = 20
"""Percent. The group size is adapted so that 10 % of the work is repeated; this is twice that."""
_ENOUGH = 100
"""Fewer in 15 minutes may be chance, whatever their share: one burst, or one hot item."""
ERRORS = 3
"""A redelivery handles a single crash. A function that cannot start reaches this number before its
first message is dead-lettered, after five receives."""
_THROTTLES = Limits.MIN_RECEIVE_COUNT
"""Each throttle spends a receive: this many can dead-letter a message that was never tried."""
_REJECTED = 10
"""In an hour. A guessed request, or one that was under way for long, is no fault; a wrong secret
rejects every request, and providers send each several times an hour."""
_LASTING = frozenset({"LettersAlarm", "RelayAlarm", "UnroutedAlarm"})
"""Alarms on letters, whose end is not told: it may be a purge, and would look like a repair."""

_DONE = (Metric.COMMITTED, Metric.REFUSED)
_WORKED_ON = (*_DONE, Metric.RESENT, Metric.REDELIVERED, Metric.REDRIVEN)
_SHARES = (
    ("ConflictsAlarm", Metric.CONFLICTS, _DONE, "conflicts"),
    ("ResentAlarm", Metric.RESENT, _WORKED_ON, "resent-duplicates"),
    ("RedeliveredAlarm", Metric.REDELIVERED, _WORKED_ON, "redelivered-duplicates"),
)
"""Alarm, counted metric, metrics of the total, entry of the runbook. Duplicates that an operator
has redriven raise no alarm."""

_STATUS, _ROW = "once status", "look at its graphs in the dashboard"
_LOG = "look for `will be retried` in the log"
_FAILED = "look for `command failed` in the log"
_ACCOUNT = "look at ConcurrentExecutions of the account"
_UNROUTED = "once dlq list --consumer unrouted"
_ENDPOINT = "look which endpoint the log names"
_UNKNOWN = "once dlq list --reason effect-unknown"
_TEXTS = {
    "dead-letters": (TODAY, "dead letters have arrived", "once dlq list"),
    "old-messages": (NOW, "messages have waited for an hour", _STATUS),
    "messages-retried": (NOW, "messages fail and are retried", _LOG),
    "blocked-message-group": (NOW, "a message fails and blocks its group", _LOG),
    "quiet-groups-wait": (NOW, "even groups with few messages wait", _STATUS),
    "function-errors": (NOW, "the function fails as a whole", _STATUS),
    "function-throttled": (NOW, "Lambda has no room for functions", _ACCOUNT),
    "relay": (NOW, "events are not published", _STATUS),
    "relay-stopped": (NOW, "the stream is not read, and events are not published", _STATUS),
    "due-events-late": (NOW, "events come long after their due time", "once outbox list --due"),
    "unrouted-events": (TODAY, "published events reached no consumer", _UNROUTED),
    "webhooks-not-handed-on": (
        TODAY,
        "webhooks were not captured or made no event",
        "once webhooks list",
    ),
    "commands-failed": (NOW, "commands end without an answer", _FAILED),
    "webhooks-rejected": (TODAY, "many webhooks are refused", _ENDPOINT),
    "new-dead-letters": (
        NOW,
        "dead letters have arrived in five minutes",
        "once dlq list --since 10m",
    ),
    "breaker-open": (NOW, "a dependency fails, messages wait", _LOG),
    "pending-effects": (TODAY, "an effect has had no outcome for an hour", "once effects list"),
    "unknown-effects": (TODAY, "an effect may have been done, or not", _UNKNOWN),
    "messages-not-handed-over": (
        NOW,
        "messages are received and the function never gets them",
        _STATUS,
    ),
    "conflicts": (TODAY, "commits conflict with one another", _ROW),
    "resent-duplicates": (TODAY, "producers send events twice", _ROW),
    "redelivered-duplicates": (TODAY, "SQS delivers committed messages again", _ROW),
    "table-throttled": (TODAY, "DynamoDB throttles the dedup table", _ROW),
    "table-conflicts": (TODAY, "deliveries of an event run at once", _ROW),
}
"""Urgency, meaning and first step of each alarm, by its entry in the runbook."""


def monitor_consumer(
    consumer: FunctionConstruct,
    props: ConsumerProps,
    queues: ConsumerQueues,
    mapping: lambda_.IEventSourceMapping | None,
    *,
    takes_due: bool,
) -> list[cloudwatch.IAlarm]:
    """Add the alarms of a consumer; return those that a faulty version sets off.

    `mapping` is None if another tool makes it; `takes_due` tells whether some of its events are
    published later.
    """
    part, function = _Part.of(consumer), consumer.function
    part.on_letters("LettersAlarm", queues.dead_letters, "dead-letters")
    part.on_age(queues.main, queues.isolation)
    part.on_retries(blocks_group=props.blocks_group)
    if takes_due:
        late = part.metric(Metric.DUE_LATE_MS, statistic=MAXIMUM)
        part.add("DueAlarm", late, LATE_MS, "due-events-late")
    if props.fair_by is not None and not props.fifo:
        # A group is noisy while it has a large share of the messages in flight. All others are
        # quiet: on a fair queue, theirs are received first.
        age = of_groups(queues.main, QUIET_AGE, period=_MINUTE)
        part.add("QuietGroupsAlarm", age, WAIT_ALARM_SECONDS, "quiet-groups-wait")
    faulty = [part.on_errors(function)]
    if part.has_all or props.rollout is not Rollout.ALL_AT_ONCE:
        # They end soon: CodeDeploy starts no deployment while one of its alarms is active.
        # Not the number of letters, which is approximate. A letter that SQS moved by itself does
        # not count here: the function's errors come first.
        sent = queues.dead_letters.metric_number_of_messages_sent(period=MOMENT, statistic=SUM)
        faulty.append(part.add("NewLettersAlarm", sent, 1, "new-dead-letters", extra=True))
        held = part.metric(Metric.BREAKER_OPEN)
        faulty.append(part.add("BreakerAlarm", held, 1, "breaker-open", extra=True))
    if part.has_all:
        part.on_throttles(function)
        for alarm, counted, total, entry in _SHARES:
            part.add(alarm, part.percent(counted, total), _FAR_ABOVE_NORMAL, entry)
        if props.has_effects:
            # The message of a pending effect is retried, and that of an unknown one is a letter.
            late = part.metric(Metric.PENDING_SECONDS, statistic=MAXIMUM)
            part.add("PendingAlarm", late, _PENDING_SECONDS, "pending-effects")
            part.add("UnknownAlarm", part.metric(Metric.EFFECTS_UNKNOWN), 1, "unknown-effects")
        if mapping is not None:
            part.on_hand_over(mapping)
    return faulty


def monitor_relay(
    relay: FunctionConstruct,
    dead_letters: sqs.IQueue,
    mapping: lambda_.IEventSourceMapping,
    group: str | None = None,
) -> None:
    """Alarm when an event was dead-lettered, a batch has failed, or publishing falls behind.

    One alarm tells of all three, and `once status` which it is. There is none on the function's
    errors: it raises an error to receive a batch again, and any lasting cause shows in the age of
    the batch. Another alarm tells that the stream is not read: then there is no batch with an age.
    `group` is that of the schedules of due events, if there are any: the alarm also tells of these
    that Scheduler fails to publish, which it tries for a day before they are dead letters.
    """
    part = _Part.of(relay)
    age = relay.function.metric("IteratorAge", period=MOMENT, statistic=MAXIMUM)
    failed = of_mapping(FAILED_BATCHES, mapping)
    others = {f"age / {_STREAM_AGE_MS}": ("age", age), "failed": ("failed", failed)}
    if group is not None:
        others[f"due / {_DUE_ERRORS}"] = ("due", failed_attempts(group))
    part.on_letters("RelayAlarm", dead_letters, "relay", others)
    part.on_silence(mapping)
    if part.has_all:
        part.on_hand_over(mapping, filtered=True)


def monitor_unrouted(sweeping: FunctionConstruct, unrouted: sqs.IQueue, sweep: sqs.IQueue) -> None:
    """Alarm when an event reached no consumer, or the sweep function fails on it.

    SQS moves an event into the unrouted queue if the function fails on it.
    """
    part, function = _Part.of(sweeping), sweeping.function
    part.on_letters("UnroutedAlarm", unrouted, "unrouted-events")
    if part.has_all:
        part.on_age(sweep)
        part.on_errors(function)
        part.on_throttles(function)


def monitor_ingress(ingress: FunctionConstruct) -> None:
    """Alarm when webhooks are not captured or handed on, or rejected in large numbers."""
    part, function = _Part.of(ingress), ingress.function
    lost = part.metric(Metric.WEBHOOKS_NOT_HANDED_ON, period=WHILE)
    part.add("WebhooksAlarm", lost, 1, "webhooks-not-handed-on")
    refused = part.metric(Metric.WEBHOOKS_REJECTED, period=_HOUR)
    part.add("RejectedAlarm", refused, _REJECTED, "webhooks-rejected")
    part.on_errors(function)
    if part.has_all:
        part.on_throttles(function)


def monitor_commands(commands: FunctionConstruct) -> list[cloudwatch.IAlarm]:
    """Alarm when commands end without an answer, or the function fails as a whole.

    Returns the alarms that a faulty version sets off.
    """
    part, function = _Part.of(commands), commands.function
    failed = part.metric(Metric.COMMANDS_FAILED, period=WHILE)
    faulty = [
        part.add("CommandsAlarm", failed, RETRIES, "commands-failed"),
        part.on_errors(function),
    ]
    if part.has_all:
        part.on_throttles(function)
    return faulty


def add_shared_alarms(scope: Construct, table: dynamodb.ITable, config: DeploymentConfig) -> None:
    """Alarm when Lambda throttles the account's functions; with "all", on the dedup table too.

    The account's functions share their concurrency, so one alarm tells of all. A lasting fault of
    the table shows in the retries of the consumers, each of whose commits writes to it.
    """
    part = _Part(scope, config.service, config)
    part.on_throttles(None)
    if not part.has_all:
        return
    throttles = {
        each: table.metric(f"{each}ThrottleEvents", period=WHILE, statistic=SUM)
        for each in ("Read", "Write")
    }
    conflicts = {"Conflicts": table.metric("TransactionConflict", period=WHILE, statistic=SUM)}
    for alarm, metrics, entry in (
        ("DedupThrottlesAlarm", throttles, "table-throttled"),
        ("DedupConflictsAlarm", conflicts, "table-conflicts"),
    ):
        # An alarm in this namespace ignores missing data, and would never end without `FILL`.
        named = {name.lower(): metric for name, metric in metrics.items()}
        filled = ", ".join(f"FILL({name}, 0)" for name in named)
        total = _math(f"SUM([{filled}])", named, WHILE)
        part.add(alarm, total, _ENOUGH, entry)


@dataclass(frozen=True, slots=True)
class _Part:
    """The alarms and metrics of one part of the service; `name` is its function's full name."""

    scope: Construct
    name: str
    config: DeploymentConfig

    @classmethod
    def of(cls, construct: FunctionConstruct) -> Self:
        return cls(construct, construct.full_name, construct.config)

    @property
    def has_all(self) -> bool:
        """Whether there are alarms beside the few. The embedded AWS evaluates none."""
        return self.config.alarms == ALL and not self.config.local

    def metric(self, metric: str, **options: Any) -> cloudwatch.Metric:
        """Return a metric that the library emits: by default its sum in five minutes."""
        return once_metric(self.name, metric, **options)

    def add(
        self,
        alarm: str,
        metric: cloudwatch.IMetric,
        threshold: int,
        entry: str,
        periods: int = 1,
        of: int = 1,
        *,
        extra: bool = False,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> cloudwatch.IAlarm:
        """Alarm from the threshold on; `entry` is the anchor in the runbook.

        The threshold must be reached in `periods` of the last `of`. An `extra` alarm notifies only
        if the deployment has all alarms. By default missing data are no fault: an idle queue
        reports nothing.
        """
        soon, what, first = _TEXTS[entry]
        return cloudwatch.Alarm(
            self.scope,
            alarm,
            # A notification shows it in its subject, and the dashboard beside the state.
            alarm_name=f"{self.name}-{soon}-{entry}",
            metric=metric,
            threshold=threshold,
            evaluation_periods=max(periods, of),
            datapoints_to_alarm=periods if of > periods else None,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing,
            actions_enabled=False if extra and not self.has_all else None,
            alarm_description=(
                f"{soon}: {self.name}: {what}. First: {first}. {explained_by(entry)}"
            ),
        )

    def on_letters(
        self,
        alarm: str,
        letters: sqs.IQueue,
        entry: str,
        others: Mapping[str, tuple[str, cloudwatch.IMetric]] = {},
    ) -> None:
        """Alarm when a queue of dead letters grows, and twice a week while some are left.

        Letters that keep arriving set it off once, and it ends six hours after the last. A purge
        changes nothing. The embedded AWS rejects metric math: there it lasts as long as letters do.

        Args:
            others: further terms that reach 1, each with the name and the metric it uses.
        """
        # Not `NumberOfMessagesSent`: a letter that SQS moved by itself does not count there. Not
        # the age of the oldest: SQS leaves out messages that were received three times, and each
        # look is a receive. A look hides a letter for a minute, which no maximum of five shows.
        visible = letters.metric_approximate_number_of_messages_visible(
            period=MOMENT, statistic=MAXIMUM
        )
        if self.config.local:
            self.add(alarm, visible, 1, entry)
            return
        # The value is a number of letters, which the notification shows: 2,000 do not look like 1.
        # An alarm that ends begins again with a notification: so a forgotten letter is told on
        # Monday and Thursday, at least twice before SQS deletes it after 14 days.
        terms = [
            "DIFF(FILL(letters, 0))",
            "IF(HOUR(letters) == 8 AND (DAY(letters) == 1 OR DAY(letters) == 4), letters, 0)",
            *others,
        ]
        metrics = {"letters": visible, **dict(others.values())}
        # `MAX` of a list passes over a metric without data, such as that of a queue never used.
        grown = _math(f"MAX([{', '.join(terms)}])", metrics)
        self.add(alarm, grown, 1, entry, of=_LETTERS_PERIODS)

    def on_age(self, *queues: sqs.IQueue | None) -> None:
        """Alarm on a message that has waited for an hour in one of the queues."""
        ages = [
            queue.metric_approximate_age_of_oldest_message(period=MOMENT, statistic=MAXIMUM)
            for queue in queues
            if queue is not None
        ]
        oldest: cloudwatch.IMetric = ages[0]
        if len(ages) > 1 and not self.config.local:
            named = {f"queue{number}": age for number, age in enumerate(ages)}
            oldest = _math(f"MAX([{', '.join(named)}])", named)
        self.add("AgeAlarm", oldest, AGE_SECONDS, "old-messages")

    def on_retries(self, *, blocks_group: bool) -> None:
        """Alarm on messages that fail, or wait for an open breaker, before their last receive.

        The library counts both. The age of the oldest message does not show them: SQS leaves out
        messages that were received three times.
        """
        retried = self.metric(Metric.RETRIED, period=WHILE)
        if blocks_group:  # its message comes every 15 minutes, until it succeeds
            self.add("RetriesAlarm", retried, 1, "blocked-message-group", periods=2)
        else:
            of = _RETRIES_PERIODS
            self.add("RetriesAlarm", retried, RETRIES, "messages-retried", of=of)

    def on_errors(self, function: lambda_.IFunction) -> cloudwatch.IAlarm:
        errors = function.metric_errors(period=WHILE, statistic=SUM)
        return self.add("ErrorsAlarm", errors, ERRORS, "function-errors")

    def on_throttles(self, function: lambda_.IFunction | None) -> None:
        """Alarm on throttles of a function; None for all of the account."""
        if function is None:
            throttles = lambda_.Function.metric_all_throttles(period=WHILE, statistic=SUM)
        else:
            throttles = function.metric_throttles(period=WHILE, statistic=SUM)
        self.add("ThrottlesAlarm", throttles, _THROTTLES, "function-throttled")

    def on_hand_over(self, mapping: lambda_.IEventSourceMapping, *, filtered: bool = False) -> None:
        """Alarm on messages that Lambda received and did not hand over.

        Args:
            filtered: whether the mapping drops some by its filter.
        """
        names = {"received": "PolledEventCount", "invoked": "InvokedEventCount"}
        left = "received"
        if filtered:
            names["dropped"] = "FilteredOutEventCount"
            left = "2 * received - SUM([received, dropped])"
        metrics = {name: of_mapping(metric, mapping) for name, metric in names.items()}
        # `SUM` of a list passes over missing data: it is what was received if none was invoked.
        lost = _math(f"IF(SUM([received, invoked]) == received, {left}, 0)", metrics)
        # A message may be received at the end of one period and handed over in the next: two
        # periods in a row without a hand-over are none of these.
        self.add("HandOverAlarm", lost, 1, "messages-not-handed-over", periods=2)

    def on_silence(self, mapping: lambda_.IEventSourceMapping) -> None:
        """Alarm when a mapping has not polled its source for an hour.

        Lambda counts 0 events for each empty poll, and nothing if it cannot poll. So the alarm is
        on missing data, and its threshold is never reached.
        """
        polled = of_mapping("PolledEventCount", mapping, period=WHILE, statistic=MINIMUM)
        missing = cloudwatch.TreatMissingData.BREACHING
        entry = "relay-stopped"
        self.add("StoppedAlarm", polled, _NEVER, entry, _SILENT_PERIODS, missing=missing)

    def percent(self, counted: str, total: Sequence[str]) -> cloudwatch.MathExpression:
        """Return the share of a metric in a total; 0 where its own figure is too small for a share.

        The counted metric is part of the total. The divisor is therefore never zero, which would
        give no figure if every commit conflicts.
        """
        others = [self.metric(other, period=WHILE) for other in total if other != counted]
        named = {f"other{number}": other for number, other in enumerate(others)}
        # A metric without events has no data. `SUM` of a list passes over it, `+` would not, and
        # `FILL` may have nothing to fill in a metric that never had any.
        whole = f"SUM([{', '.join(['counted', *named])}])"
        return _math(
            f"IF(counted >= {_ENOUGH}, 100 * counted / {whole}, 0)",
            {"counted": self.metric(counted, period=WHILE), **named},
            WHILE,
        )


def _math(
    expression: str, metrics: Mapping[str, cloudwatch.IMetric], period: Duration = MOMENT
) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=metrics, period=period, label="alarm"
    )


def any_metric(
    namespace: str, name: str, dimensions: Mapping[str, str], **options: Any
) -> cloudwatch.Metric:
    """Return a metric: by default its sum in five minutes."""
    of = {"namespace": namespace, "metric_name": name, "dimensions_map": dimensions}
    return cloudwatch.Metric(**{"period": MOMENT, "statistic": SUM, **of, **options})


def once_metric(service: str, name: str, **options: Any) -> cloudwatch.Metric:
    """Return a metric that the library emits for a function, by the function's full name."""
    # The only dimension: CloudWatch bills each further value.
    return any_metric(Metric.NAMESPACE, name, {"service": service}, **options)


def of_groups(queue: sqs.IQueue, name: str, **options: Any) -> cloudwatch.Metric:
    """Return a metric of SQS on a queue's message groups, for which the CDK has no methods."""
    of_queue = {"QueueName": queue.queue_name}
    return any_metric("AWS/SQS", name, of_queue, **{"statistic": MAXIMUM, **options})


def of_mapping(
    name: str, mapping: lambda_.IEventSourceMapping, **options: Any
) -> cloudwatch.Metric:
    """Return a metric of Lambda on an event source mapping, for which the CDK has no methods."""
    by_id = {"EventSourceMappingUUID": mapping.event_source_mapping_id}
    return any_metric("AWS/Lambda", name, by_id, **options)


def failed_attempts(group: str) -> cloudwatch.Metric:
    """Return how often Scheduler failed to publish a due event of a schedule group."""
    of_group = {"ScheduleGroup": group}
    return any_metric("AWS/Scheduler", "TargetErrorCount", of_group, label="failed attempts")


def make_alarm_topic(scope: Construct, config: DeploymentConfig | None = None) -> sns.Topic:
    """Return a topic to which the alarms of this account and region may publish, over TLS only.

    Operators subscribe to it. Without a key for topics it is not encrypted: an alarm says no more
    than its name and description, and CloudWatch may not use the AWS managed key of SNS.
    """
    config = config or DeploymentConfig.from_context(scope.node)
    by_alarms = iam.ServicePrincipal("cloudwatch.amazonaws.com")
    key = imported_key(scope, config.keys.topics)
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
    """Let every alarm in the tree notify the topic when it begins and when its fault has ended."""
    action = actions.SnsAction(topic)
    for construct in tree:
        if isinstance(construct, cloudwatch.Alarm):
            construct.add_alarm_action(action)
            if construct.node.id not in _LASTING:
                construct.add_ok_action(action)
