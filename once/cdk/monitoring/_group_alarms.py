"""Alarms on message groups that wait: on a queue that blocks groups, and on a fair queue."""

from typing import Protocol

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from once.cdk.monitoring.metrics import MAXIMUM, MonitoredConsumer, QueueGroups, groups_metric

WAIT_ALARM_SECONDS = 15 * 60
"""The longest delay of one retry. A group waits for longer only if its messages keep failing, or if
the function has too little capacity."""
MINUTE = Duration.minutes(1)


class AddAlarm(Protocol):
    """Adds an alarm from a threshold on; `entry` is the anchor in the runbook."""

    def __call__(
        self, part: str, metric: cloudwatch.IMetric, threshold: int, entry: str, what: str
    ) -> cloudwatch.IAlarm: ...


def add_group_alarms(add: AddAlarm, consumer: MonitoredConsumer) -> None:
    """Add the alarms of a consumer whose groups wait for each other or share a queue fairly."""
    queue = consumer.queue
    if consumer.props.blocks_group:
        age = queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic=MAXIMUM)
        what = "a message may hold up its group"
        add("BlockedAlarm", age, WAIT_ALARM_SECONDS, "blocked-message-group", what)
    if consumer.props.fair_by is not None:
        quiet = groups_metric(queue, QueueGroups.OLDEST_IN_QUIET, MINUTE)
        what = "even groups with few messages wait"
        add("QuietGroupsAlarm", quiet, WAIT_ALARM_SECONDS, "quiet-groups-wait", what)
