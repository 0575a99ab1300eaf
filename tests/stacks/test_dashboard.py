"""The dashboard: a row for each function, and what an operator reads first in it."""

import json

import pytest

from once.names import RELAY, UNROUTED, Metric
from stacks.consumers import CONSUMERS
from stacks.webhooks import WEBHOOKS
from tests.stacks.cloud import STATE, Cloud, Json, flat
from tests.stacks.test_alarms import AGE, VISIBLE

Shown = set[tuple[str, str]]
"""Metrics of an owner's row, each with the value of its dimension."""


@pytest.fixture(scope="module")
def rows(cloud: Cloud) -> dict[str, Shown]:
    dashboard = cloud.of("Dashboard")
    assert flat(dashboard["DashboardName"]) == "once-<AWS::Region>"  # unique in the account
    found: dict[str, Shown] = {}
    widget: Json
    for widget in json.loads(flat(dashboard["DashboardBody"]))["widgets"]:
        owner = widget["properties"]["title"].partition(": ")[0]
        lines = {(metric, value) for _, metric, _, value, _ in widget["properties"]["metrics"]}
        found.setdefault(owner, set()).update(lines)
    return found


def test_each_function_has_a_row_with_its_errors_and_what_waits(
    cloud: Cloud, rows: dict[str, Shown]
) -> None:
    names = [consumer.name for consumer in CONSUMERS]
    assert rows.keys() == {*names, RELAY, UNROUTED, WEBHOOKS.name, "tables"}

    def queue(owner: str, part: str) -> str:
        return cloud.text(owner, part, attribute="QueueName")

    for owner in (*names, RELAY, UNROUTED):
        assert ("Errors", cloud.text(owner, "Function")) in rows[owner]
    for consumer in CONSUMERS:
        name, own = consumer.name, f"once-{consumer.name}"
        expected = {(VISIBLE, queue(name, "DeadLetters")), (AGE, queue(name, "Queue"))}
        expected |= {
            (metric, own) for metric in (Metric.COMMITTED, Metric.RESENT, Metric.CONFLICTS)
        }
        expected |= {(Metric.ISOLATED, own)} if consumer.batch_size > 1 else set()
        expected |= {(Metric.EFFECTS_UNKNOWN, own)} if consumer.effect_timeout_seconds else set()
        assert expected <= rows[name]
    assert {
        (Metric.RELAY_LAG_MS, f"once-{RELAY}"),
        (VISIBLE, queue(RELAY, "DeadLetters")),
    } <= rows[RELAY]
    assert {(VISIBLE, queue(UNROUTED, part)) for part in ("Queue", "Sweep")} <= rows[UNROUTED]


def test_row_of_the_tables(cloud: Cloud, rows: dict[str, Shown]) -> None:
    tables = {"dedup-records", *(table.name for line in CONSUMERS for table in line.tables)}
    throttled = {value for metric, value in rows["tables"] if metric == "WriteThrottleEvents"}
    shown = {cloud.output(value.strip("<>")) for value in throttled}
    assert shown == {cloud.text(STATE, name) for name in tables}
