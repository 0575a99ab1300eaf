"""The set of alarms of one part of the service, with their thresholds.

Each alarm names, in its description, the entry of the runbook that says what to do.
"""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from once.cdk.monitoring.metrics import (
    MAXIMUM,
    SUM,
    messages,
    never_handed_over,
    once_metric,
    share,
)
from once.metric_names import Metric
from once.schema import Limits

RUNBOOK = "docs/runbook.md"

MINUTE = Duration.minutes(1)
MOMENT = Duration.minutes(5)
WHILE = Duration.minutes(15)
HOUR = Duration.hours(1)

OLD_LETTERS_HOURS = 4 * 24
"""Four days of the 14 that a letter is kept. A letter that SQS moved may already be eight days old
when it arrives: two days are left then."""

AGE_ALARM_SECONDS = Limits.QUEUE_RETENTION_SECONDS // 2
"""Half the retention: a weekend must fit between the alarm and the deletion of the message."""
STREAM_AGE_ALARM_MS = 60 * 60 * 1000
"""One hour. A batch of the relay fails for good after 12 hours, and the stream keeps it for 24."""
PENDING_ALARM_SECONDS = 60 * 60
"""One hour of the 23 in which a provider key is used: an operator still has time to act."""
FAR_ABOVE_NORMAL = 20
"""Percent. The group size is adapted so that 10 % of the work is repeated; this is twice that."""
ENOUGH = 100
"""Fewer in 15 minutes may be chance, whatever their share: one burst, or one hot item."""
ERRORS = 3
"""A redelivery handles a single crash. A function that cannot start reaches this number before its
first message is dead-lettered, after five receives."""
THROTTLES = Limits.MIN_RECEIVE_COUNT
"""Each throttle spends a receive: this many can dead-letter a message that was never tried."""
HAND_OVER_PERIODS = 2

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


@dataclass(frozen=True, slots=True)
class Alarms:
    """The alarms of one part of the service; `name` is what their descriptions call it.

    `local`: they go into the embedded AWS.
    """

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
            alarm_description=f"{self.name}: {what}. {RUNBOOK}#{entry}",
        )

    def on_dead_letters(self, dead_letters: sqs.IQueue, entry: str) -> cloudwatch.IAlarm:
        """Alarm on present, new and old dead letters; return the alarm on new ones."""
        dead = messages(dead_letters, MINUTE, local=self.local)
        self.add("DeadLettersAlarm", dead, 1, entry, "dead letters wait for a decision")
        return self.on_letters(dead_letters)

    def on_letters(self, queue: sqs.IQueue) -> cloudwatch.IAlarm:
        """Alarm on new and on old letters of a queue; return the former."""
        # Not the age of the oldest message: SQS leaves out messages that were received three times,
        # and each look at a letter is a receive.
        there = messages(queue, HOUR, local=self.local)
        what = "letters have been there for four days and are deleted after 14"
        self.add("OldLettersAlarm", there, 1, "old-dead-letters", what, OLD_LETTERS_HOURS)
        # Not a change of the number of letters, which is approximate. A letter that SQS moved by
        # itself does not count here: the function's errors or throttles come first.
        sent = queue.metric_number_of_messages_sent(period=MOMENT, statistic=SUM)
        what = "letters have arrived, perhaps beside others"
        return self.add("NewLettersAlarm", sent, 1, "new-dead-letters", what)

    def on_isolation(self, queue: sqs.IQueue) -> None:
        """Alarm on old messages of an isolation queue."""
        age = queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic=MAXIMUM)
        what = "SQS will soon delete isolated messages"
        self.add("IsolationAgeAlarm", age, AGE_ALARM_SECONDS, "old-messages", what)

    def on_function(self, function: lambda_.IFunction) -> cloudwatch.IAlarm:
        """Alarm on throttles and errors; return the latter."""
        errors = function.metric_errors(period=WHILE, statistic=SUM)
        throttles = function.metric_throttles(period=WHILE, statistic=SUM)
        full = "Lambda has no room for it"
        self.add("ThrottlesAlarm", throttles, THROTTLES, "function-throttled", full)
        what = "the function fails as a whole"
        return self.add("ErrorsAlarm", errors, ERRORS, "function-errors", what)

    def on_effects(self) -> None:
        """Alarm on effects without an outcome."""
        age = once_metric(self.name, Metric.PENDING_SECONDS, MOMENT, MAXIMUM)
        unknown = once_metric(self.name, Metric.EFFECTS_UNKNOWN, MOMENT)
        late = "an effect has had no outcome for an hour"
        self.add("PendingAlarm", age, PENDING_ALARM_SECONDS, "pending-effects", late)
        self.add(
            "UnknownAlarm", unknown, 1, "unknown-effects", "an effect may have been done, or not"
        )

    def on_hand_over(self, mapping: lambda_.IEventSourceMapping) -> None:
        """Alarm on messages that are received and never handed over."""
        # A message may be received at the end of one period and handed over in the next: two
        # periods in a row without a hand-over are none of these.
        lost = never_handed_over(mapping.event_source_mapping_id, MOMENT)
        what = "messages are received and the function never gets them"
        self.add("HandOverAlarm", lost, 1, "messages-not-handed-over", what, HAND_OVER_PERIODS)

    def on_shares(self) -> None:
        """Alarm on conflicts and duplicates, by their share."""
        for part, counted, total, entry, what in _SHARES:
            percent = share(self.name, counted, total, WHILE, at_least=ENOUGH)
            self.add(part, percent, FAR_ABOVE_NORMAL, entry, what)
