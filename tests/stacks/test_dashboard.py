"""What the dashboard shows: a row for each consumer, one for the relay, one for the tables."""

import json

import pytest

from once.cdk.props import ConsumerProps
from once.schema import RELAY, UNROUTED, Metric
from stacks.consumers import CONSUMERS
from tests.stacks.cloud import Cloud, Json, flat

OWNERS = [*(line.name for line in CONSUMERS), RELAY, UNROUTED, "tables"]
RELAY_PARTS = ("Function", "DeadLetters", "Mapping")
COLUMNS, HEIGHT = 24, 6

Line = tuple[str, str, str]
"""Metric, whose it is, statistic."""


@pytest.fixture(scope="module")
def widgets(cloud: Cloud) -> list[Json]:
    body = json.loads(flat(cloud.properties("once-service/Dashboard")["DashboardBody"]))
    return list(body["widgets"])


def row(widgets: list[Json], owner: str) -> dict[str, Json]:
    """Return an owner's graphs by what they are about."""
    titles = [widget["properties"]["title"].partition(": ") for widget in widgets]
    return {
        what: widget
        for (name, _, what), widget in zip(titles, widgets, strict=True)
        if name == owner
    }


def lines(widget: Json) -> dict[str, Line]:
    """Return the lines of a graph by their labels."""
    return {
        options["label"]: (metric, owner, options.get("stat", "Average"))
        for _, metric, _, owner, options in widget["properties"]["metrics"]
    }


def on_the_right(widget: Json) -> set[str]:
    options = [metric[-1] for metric in widget["properties"]["metrics"]]
    return {option["label"] for option in options if option.get("yAxis") == "right"}


def test_everybody_has_one_row_and_none_is_broken(widgets: list[Json]) -> None:
    assert sum(len(row(widgets, owner)) for owner in OWNERS) == len(widgets)
    for number, owner in enumerate(OWNERS):
        graphs = row(widgets, owner).values()
        assert {graph["y"] for graph in graphs} == {number * HEIGHT}
        assert {graph["height"] for graph in graphs} == {HEIGHT}
        assert sum(graph["width"] for graph in graphs) <= COLUMNS


def test_a_consumers_row_shows_the_same_in_the_same_place(
    widgets: list[Json], consumer: ConsumerProps
) -> None:
    graphs = row(widgets, consumer.name)
    expected = ["queue", "messages", "conflicts", "commit, ms", "function"]
    assert list(graphs) == expected + ["effects"] * (consumer.effect_timeout_seconds > 0)
    assert [graph["x"] for graph in graphs.values()] == [4 * n for n in range(len(graphs))]


def test_the_queue_shows_what_waits_how_long_and_what_was_given_up(
    cloud: Cloud, widgets: list[Json], consumer: ConsumerProps
) -> None:
    graph = row(widgets, consumer.name)["queue"]
    parts = {"waiting": "Queue", "dead letters": "DeadLetters"}
    if consumer.batch_size > 1:
        parts["isolated"] = "Isolation"
    names = {
        label: f"<{cloud.logical_id(f'once-service/{consumer.name}/{part}')}.QueueName>"
        for label, part in parts.items()
    }
    assert lines(graph) == {
        **{
            label: ("ApproximateNumberOfMessagesVisible", name, "Maximum")
            for label, name in names.items()
        },
        "oldest, seconds": ("ApproximateAgeOfOldestMessage", names["waiting"], "Maximum"),
    }
    assert on_the_right(graph) == {"oldest, seconds"}


def test_messages_show_what_became_of_them(widgets: list[Json], consumer: ConsumerProps) -> None:
    own = f"once-{consumer.name}"
    isolated = {"isolated": (Metric.ISOLATED, own, "Sum")} if consumer.batch_size > 1 else {}
    assert lines(row(widgets, consumer.name)["messages"]) == {
        "committed": (Metric.COMMITTED, own, "Sum"),
        "refused": (Metric.REFUSED, own, "Sum"),
        "sent again": (Metric.RESENT, own, "Sum"),
        "delivered again": (Metric.REDELIVERED, own, "Sum"),
        "redriven again": (Metric.REDRIVEN, own, "Sum"),
        "held back": (Metric.BREAKER_OPEN, own, "Sum"),
        **isolated,
    }


def test_conflicts_stand_beside_the_group_size(
    widgets: list[Json], consumer: ConsumerProps
) -> None:
    graph, own = row(widgets, consumer.name)["conflicts"], f"once-{consumer.name}"
    assert lines(graph) == {
        "conflicts": (Metric.CONFLICTS, own, "Sum"),
        "group size": (Metric.GROUP_SIZE, own, "Average"),
    }
    assert on_the_right(graph) == {"group size"}


def test_a_commits_time_is_shown_for_half_and_for_nearly_all(
    widgets: list[Json], consumer: ConsumerProps
) -> None:
    own = f"once-{consumer.name}"
    assert lines(row(widgets, consumer.name)["commit, ms"]) == {
        "p50": (Metric.COMMIT_MS, own, "p50"),
        "p99": (Metric.COMMIT_MS, own, "p99"),
    }


@pytest.mark.parametrize("owner", [*(line.name for line in CONSUMERS), RELAY, UNROUTED])
def test_a_function_shows_its_errors_and_throttles(
    cloud: Cloud, widgets: list[Json], owner: str
) -> None:
    own = f"<{cloud.logical_id(f'once-service/{owner}/Function')}>"
    assert lines(row(widgets, owner)["function"]) == {
        name.lower(): (name, own, "Sum") for name in ("Invocations", "Errors", "Throttles")
    }


@pytest.mark.parametrize("name", [line.name for line in CONSUMERS if line.effect_timeout_seconds])
def test_effects_show_their_outcomes_and_the_oldest_without_one(
    widgets: list[Json], name: str
) -> None:
    graph, own = row(widgets, name)["effects"], f"once-{name}"
    assert lines(graph) == {
        "done": (Metric.EFFECTS_DONE, own, "Sum"),
        "not done": (Metric.EFFECTS_NOT_DONE, own, "Sum"),
        "unknown": (Metric.EFFECTS_UNKNOWN, own, "Sum"),
        "pending, seconds": (Metric.PENDING_SECONDS, own, "Maximum"),
    }
    assert on_the_right(graph) == {"pending, seconds"}


def test_the_relay_shows_how_late_it_is_and_what_it_left_over(
    cloud: Cloud, widgets: list[Json]
) -> None:
    graphs, own = row(widgets, RELAY), f"once-{RELAY}"
    parts = {part: cloud.logical_id(f"once-service/{RELAY}/{part}") for part in RELAY_PARTS}
    assert list(graphs) == ["behind, ms", "events", "left over", "function"]
    assert lines(graphs["behind, ms"]) == {
        "commit to topic": (Metric.RELAY_LAG_MS, own, "Maximum"),
        "in the stream": ("IteratorAge", f"<{parts['Function']}>", "Maximum"),
    }
    assert lines(graphs["events"]) == {"published": (Metric.PUBLISHED, own, "Sum")}
    assert lines(graphs["left over"]) == {
        "dead letters": (
            "ApproximateNumberOfMessagesVisible",
            f"<{parts['DeadLetters']}.QueueName>",
            "Maximum",
        ),
        "batches given up": (
            "OnFailureDestinationDeliveredEventCount",
            f"<{parts['Mapping']}>",
            "Sum",
        ),
    }


def test_unrouted_events_are_shown_and_those_not_yet_looked_at(
    cloud: Cloud, widgets: list[Json]
) -> None:
    path, waiting = f"once-service/{UNROUTED}", "ApproximateNumberOfMessagesVisible"
    assert lines(row(widgets, UNROUTED)["events"]) == {
        "kept": (waiting, f"<{cloud.logical_id(f'{path}/Queue')}.QueueName>", "Maximum"),
        "not yet looked at": (
            waiting,
            f"<{cloud.logical_id(f'{path}/Sweep')}.QueueName>",
            "Maximum",
        ),
    }


@pytest.mark.parametrize(
    ("what", "metric"),
    [
        ("throttled reads", "ReadThrottleEvents"),
        ("throttled writes", "WriteThrottleEvents"),
        ("conflicts", "TransactionConflict"),
        ("read units", "ConsumedReadCapacityUnits"),
        ("write units", "ConsumedWriteCapacityUnits"),
    ],
)
def test_every_table_shows_what_it_refuses_and_what_it_takes(
    cloud: Cloud, widgets: list[Json], what: str, metric: str
) -> None:
    tables = ["dedup-records", *dict.fromkeys(t.name for line in CONSUMERS for t in line.tables)]
    shown = lines(row(widgets, "tables")[what])
    assert list(shown) == tables
    for name, (measured, table, statistic) in shown.items():
        assert (measured, statistic) == (metric, "Sum")
        imported = cloud.exported({"Fn::ImportValue": table.strip("<>")})
        assert imported == f"<{cloud.logical_id(f'once-state/{name}')}>"


def test_graphs_begin_at_zero(widgets: list[Json]) -> None:
    for widget in widgets:
        axes = widget["properties"]["yAxis"]
        assert axes == {"left": {"min": 0}, "right": {"min": 0}}
