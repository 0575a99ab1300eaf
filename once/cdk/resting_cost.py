"""Cost at rest: the bill of a month in which no message arrives, counted in templates.

Prices are list prices for us-east-1 in USD, without free tiers. docs/costs.md says which of them
were read on 2026-11-22.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ALARM_METRIC = 0.10
CUSTOM_METRIC = 0.30
DASHBOARD = 3.00
KEY = 1.00
SECRET = 0.40
SQS_REQUEST = 0.40e-6

POLLERS = 5
"""Lambda's pollers of a standard queue at rest; each makes a long poll of 20 s."""
POLLS = POLLERS * 30 * 24 * 3600 // 20
"""Receives of a mapping in a month of 30 days."""

Template = Mapping[str, Any]


class Line(NamedTuple):
    """One line of a bill: what is counted, how many, and the price of one."""

    name: str
    quantity: float
    price: float

    @property
    def cost(self) -> float:
        return self.quantity * self.price


def at_rest(*templates: Template) -> list[Line]:
    """Return the lines of the bill. A part that the templates lack has a quantity of 0."""
    alarms = [*properties_of("AWS::CloudWatch::Alarm", *templates)]
    mappings = [*properties_of("AWS::Lambda::EventSourceMapping", *templates)]
    queues = [mapping for mapping in mappings if "StartingPosition" not in mapping]
    # Lambda counts 0 events for an empty poll: this metric has data in every hour.
    counted = ["MetricsConfig" in mapping for mapping in mappings].count(True)
    return [
        Line(f"metrics in {len(alarms)} alarms", sum(map(_alarm_metrics, alarms)), ALARM_METRIC),
        Line("dashboard", _count("AWS::CloudWatch::Dashboard", *templates), DASHBOARD),
        Line("KMS key", _count("AWS::KMS::Key", *templates), KEY),
        Line("secret", _count("AWS::SecretsManager::Secret", *templates), SECRET),
        Line(f"receives by {len(queues)} mappings", len(queues) * POLLS, SQS_REQUEST),
        Line("counted polls of a mapping", counted, CUSTOM_METRIC),
    ]


_PARTS = {
    "AWS::DynamoDB::Table": "table",
    "AWS::DynamoDB::GlobalTable": "global table",
    "AWS::Lambda::Function": "function",
    "AWS::SQS::Queue": "queue",
    "AWS::SNS::Topic": "topic",
    "AWS::S3::Bucket": "bucket",
    "AWS::KMS::Key": "key",
    "AWS::CloudWatch::Alarm": "alarm",
}


def summary(service: str, *templates: Template) -> str:
    """Return three lines: the resources of a service, and its cost at rest."""
    kinds = Counter(each["Type"] for one in templates for each in one["Resources"].values())
    parts = [
        f"{kinds[kind]} {word}{'s' if kinds[kind] > 1 else ''}"
        for kind, word in _PARTS.items()
        if kinds[kind]
    ]
    dashboards, bill = 0.0, []
    for line in at_rest(*templates):
        if line.price == DASHBOARD:
            dashboards += line.cost
        elif line.quantity:
            bill.append(line)
    amounts = " + ".join(f"{line.cost:.2f} ({line.name})" for line in bill)
    return (
        f"{service}: {kinds.total()} resources: {', '.join(parts)}\n"
        f"at rest {sum(line.cost for line in bill):.2f} USD a month = {amounts}\n"
        f"and {dashboards:.2f} for dashboards, of which an account has three free with up to 50 "
        "metrics each; list prices of us-east-1\n"
    )


def properties_of(kind: str, *templates: Template) -> Iterator[Mapping[str, Any]]:
    for template in templates:
        for resource in template["Resources"].values():
            if resource["Type"] == kind:
                yield resource.get("Properties", {})


def _count(kind: str, *templates: Template) -> int:
    return len([*properties_of(kind, *templates)])


def _alarm_metrics(alarm: Mapping[str, Any]) -> int:
    """Return the metrics that an alarm is charged for; an expression counts each of its own."""
    return sum("MetricStat" in metric for metric in alarm.get("Metrics", [])) or 1
