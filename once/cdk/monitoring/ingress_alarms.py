"""The alarms of a webhook ingress."""

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from once.cdk.monitoring._alarm_set import ERRORS, HOUR, WHILE, Alarms
from once.cdk.monitoring.metrics import once_metric
from once.metric_names import Metric

REJECTED = 10
"""In an hour. A guessed request, or one that was under way for long, is no fault; a wrong secret
rejects every request, and providers send each several times an hour."""

_COUNTED = (
    ("FailedAlarm", Metric.WEBHOOKS_FAILED, ERRORS, "webhooks-failed", "webhooks are not captured"),
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
_REJECTED = (
    ("ForgedAlarm", Metric.WEBHOOKS_FORGED, "no secret of the endpoint gives their signatures"),
    ("StaleAlarm", Metric.WEBHOOKS_STALE, "their signatures are too old, or a clock is wrong"),
)


def add_ingress_alarms(
    scope: Construct, name: str, function: lambda_.IFunction, *, local: bool
) -> None:
    """Alarm when webhooks are not captured, not handed on, or rejected in numbers.

    Args:
        scope: the ingress.
        name: the function's full name, such as `once-webhooks`.
        function: the function.
        local: whether they go into the embedded AWS.
    """
    alarms = Alarms(scope, name, local)
    for part, metric, threshold, entry, what in _COUNTED:
        alarms.add(part, once_metric(name, metric, WHILE), threshold, entry, what)
    for part, metric, what in _REJECTED:
        alarms.add(part, once_metric(name, metric, HOUR), REJECTED, "webhooks-rejected", what)
    alarms.on_function(function)
