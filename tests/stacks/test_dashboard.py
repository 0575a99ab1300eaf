"""The dashboard: a row for each consumer, one each for relay, unrouted events and tables."""

import json

import pytest

from once.cdk.props import ConsumerProps
from once.names import RELAY, UNROUTED, Metric
from stacks.consumers import CONSUMERS
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import STATE, Cloud, Json, flat

VISIBLE, AGE = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"
MESSAGES: dict[str, str] = {
    "committed": Metric.COMMITTED,
    "refused": Metric.REFUSED,
    "sent again": Metric.RESENT,
    "delivered again": Metric.REDELIVERED,
    "redriven again": Metric.REDRIVEN,
    "held back": Metric.BREAKER_OPEN,
}
EFFECTS: dict[str, str] = {
    "done": Metric.EFFECTS_DONE,
    "not done": Metric.EFFECTS_NOT_DONE,
    "unknown": Metric.EFFECTS_UNKNOWN,
}

Graph = dict[str, tuple[str, str, str]]
"""Lines by their labels: metric, the value of its dimension, statistic."""


@pytest.fixture(scope="module")
def widgets(cloud: Cloud) -> list[Json]:
    dashboard = cloud.of("Dashboard")
    assert flat(dashboard["DashboardName"]) == "once-<AWS::Region>"  # unique in the account
    body = json.loads(flat(dashboard["DashboardBody"]))
    return list(body["widgets"])


def row(widgets: list[Json], owner: str) -> dict[str, Json]:
    """Return an owner's graphs by their titles."""
    titles = [widget["properties"]["title"].partition(": ") for widget in widgets]
    return {
        title: widget
        for (name, _, title), widget in zip(titles, widgets, strict=True)
        if name == owner
    }


def lines(widget: Json) -> Graph:
    return {
        options["label"]: (metric, value, options.get("stat", "Average"))
        for _, metric, _, value, options in widget["properties"]["metrics"]
    }


def sums(value: str, metrics: dict[str, str]) -> Graph:
    return {label: (metric, value, "Sum") for label, metric in metrics.items()}


def of_function(cloud: Cloud, owner: str) -> Graph:
    names = ("Invocations", "Errors", "Throttles")
    return sums(cloud.text(owner, "Function"), {name.lower(): name for name in names})


def visible(cloud: Cloud, owner: str, part: str) -> tuple[str, str, str]:
    return (VISIBLE, cloud.text(owner, part, attribute="QueueName"), "Maximum")


def of_consumer(cloud: Cloud, consumer: ConsumerProps) -> dict[str, Graph]:
    name, own = consumer.name, f"once-{consumer.name}"
    waiting = visible(cloud, name, "Queue")
    graphs: dict[str, Graph] = {
        "queue": {
            "waiting": waiting,
            "dead letters": visible(cloud, name, "DeadLetters"),
            "oldest, seconds": (AGE, waiting[1], "Maximum"),
        },
        "messages": sums(own, MESSAGES),
        "conflicts": {
            "conflicts": (Metric.CONFLICTS, own, "Sum"),
            "group size": (Metric.GROUP_SIZE, own, "Average"),
        },
        "commit, ms": {label: (Metric.COMMIT_MS, own, label) for label in ("p50", "p99")},
        "function": of_function(cloud, name),
    }
    if consumer.batch_size > 1:
        graphs["queue"]["isolated"] = visible(cloud, name, "Isolation")
        graphs["messages"]["isolated"] = (Metric.ISOLATED, own, "Sum")
    if consumer.effect_timeout_seconds > 0:
        pending = (Metric.PENDING_SECONDS, own, "Maximum")
        graphs["effects"] = {**sums(own, EFFECTS), "pending, seconds": pending}
    return graphs


def of_relay(cloud: Cloud) -> dict[str, Graph]:
    own, failed = f"once-{RELAY}", "OnFailureDestinationDeliveredEventCount"
    return {
        "behind, ms": {
            "commit to topic": (Metric.RELAY_LAG_MS, own, "Maximum"),
            "in the stream": ("IteratorAge", cloud.text(RELAY, "Function"), "Maximum"),
        },
        "events": {"published": (Metric.PUBLISHED, own, "Sum")},
        "left over": {
            "dead letters": visible(cloud, RELAY, "DeadLetters"),
            "failed batches": (failed, cloud.text(RELAY, "Mapping"), "Sum"),
        },
        "function": of_function(cloud, RELAY),
    }


def of_unrouted(cloud: Cloud) -> dict[str, Graph]:
    events = {
        "kept": visible(cloud, UNROUTED, "Queue"),
        "not yet looked at": visible(cloud, UNROUTED, "Sweep"),
    }
    return {"events": events, "function": of_function(cloud, UNROUTED)}


def test_rows_of_consumers_relay_and_unrouted_events(cloud: Cloud, widgets: list[Json]) -> None:
    rows = {consumer.name: of_consumer(cloud, consumer) for consumer in CONSUMERS}
    for owner, expected in {**rows, RELAY: of_relay(cloud), UNROUTED: of_unrouted(cloud)}.items():
        graphs = row(widgets, owner)
        assert {title: lines(graph) for title, graph in graphs.items()} == expected
    assert row(widgets, WEBHOOKS.name)


TABLES = {
    "throttled reads": "ReadThrottleEvents",
    "throttled writes": "WriteThrottleEvents",
    "conflicts": "TransactionConflict",
    "read units": "ConsumedReadCapacityUnits",
    "write units": "ConsumedWriteCapacityUnits",
}


def test_row_of_the_tables(cloud: Cloud, widgets: list[Json]) -> None:
    tables = ["dedup-records", *dict.fromkeys(t.name for line in CONSUMERS for t in line.tables)]
    for title, metric in TABLES.items():
        shown = lines(row(widgets, "tables")[title])
        assert list(shown) == tables
        for name, (measured, table, statistic) in shown.items():
            assert (measured, statistic) == (metric, "Sum")
            assert cloud.output(table.strip("<>")) == cloud.text(STATE, name)
