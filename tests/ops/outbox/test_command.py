"""`outbox republish`, from the dedup table through the relay to the topic's subscribers."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from once.names import CLOCK_SKEW_SECONDS
from tests.ops.cloud import Cloud
from tests.ops.notes import HOUR
from tests.ops.outboxes import REPUBLISH, commit, commit_each, event, ids, published
from tests.ops.output import numbers, stderr_of, stdout_of
from tests.ops.support import refuse, requests_of


def hours_ago(hours: float) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat()


def test_events_are_published_as_they_were_committed_and_counted_by_type(cloud: Cloud) -> None:
    bodies = [event("orders#a"), event("orders#a", 1, "stock.reserved"), event("inventory#b")]
    commit(cloud, "orders#a", *bodies[:2])
    commit(cloud, "inventory#b", bodies[2])
    commit(cloud, "inventory#c")
    counts = {
        "records read": "2",
        "records left out as too old": "0",
        "order.placed": "2",
        "stock.reserved": "1",
        "events": "3",
    }
    dry_run = stdout_of(*REPUBLISH, "2h", "--dry-run")
    assert "┃ only counted " in dry_run
    assert numbers(dry_run) == counts
    assert published(cloud) == set()
    output = stdout_of(*REPUBLISH, "2h")
    assert "┃ published " in output
    assert numbers(output) == counts
    # No queue subscribes to the other type.
    assert cloud.take("orders") == Counter([bodies[0], bodies[2]])


def test_only_events_committed_within_the_period_are_published(cloud: Cloud) -> None:
    for age in (1, 3, 5):
        commit_each(cloud, f"orders#{age}", age=age)
    stdout_of(*REPUBLISH, "4h", "--until", hours_ago(2))
    assert published(cloud) == ids("orders#3")
    stdout_of(*REPUBLISH, hours_ago(4))
    assert published(cloud) == ids("orders#1", "orders#3")


def test_events_in_a_sequence_item_are_published_from_their_record_alone(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a")
    commit(cloud, "orders#sequence#g", event("orders#a"), dedup_key={"S": "orders#a"})
    output = stdout_of(*REPUBLISH, "2h")
    assert numbers(output)["records read"] == "1"
    assert published(cloud) == ids("orders#a")


def test_period_is_extended_by_the_clock_skew(cloud: Cloud) -> None:
    skew = CLOCK_SKEW_SECONDS / HOUR
    commit_each(cloud, "orders#after", age=2 - 1.1 * skew)
    commit_each(cloud, "orders#fast", age=2 - 0.9 * skew)
    commit_each(cloud, "orders#slow", age=4 + 0.9 * skew)
    commit_each(cloud, "orders#before", age=4 + 1.1 * skew)
    stdout_of(*REPUBLISH, "4h", "--until", hours_ago(2))
    assert published(cloud) == ids("orders#fast", "orders#slow")


def test_consumer_is_selected_by_its_whole_name(cloud: Cloud) -> None:
    commit_each(cloud, "orders#a", "orders_archive#b", "inventory#c")
    stdout_of(*REPUBLISH, "2h", "--consumer", "orders")
    assert published(cloud) == ids("orders#a")


@pytest.mark.parametrize("left", [-1, 1, 30 * 24 - 1])
def test_record_that_expires_before_its_message_may_is_counted_as_too_old(
    cloud: Cloud, left: int
) -> None:
    commit_each(cloud, "orders#a", expires_in=left)
    commit_each(cloud, "orders#b", expires_in=30 * 24 + 1)
    output = stdout_of(*REPUBLISH, "2h")
    assert published(cloud) == ids("orders#b")
    assert numbers(output)["records left out as too old"] == "1"


def test_every_page_of_the_table_is_read_consistently(cloud: Cloud) -> None:
    asked = requests_of("dynamodb.Scan")
    pks = [f"orders#{number}" for number in range(12)]
    for pk in pks:
        commit(cloud, pk, event(pk, data="x" * 200_000))  # a page of a scan ends at 1 MB
    stdout_of(*REPUBLISH, "2h")
    assert published(cloud) == ids(*pks)
    assert len(asked) > 1
    assert all(query["ConsistentRead"] for query in asked)


def test_refused_scan_is_reported_with_its_remedy(cloud: Cloud) -> None:
    refuse("dynamodb.Scan")
    assert "have this action granted" in stderr_of(*REPUBLISH, "2h")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("yesterday", 2, "Invalid value for --since: 'yesterday' is no point in time"),
        ("2d --until soon", 2, "Invalid value for --until: 'soon' is no point in time"),
        ("2d --until 3d", 2, "is not before --until"),
        ("2999-01-01", 2, "is not before now"),
        ("2h --consumer refunds", 1, "choose one of inventory, orders"),
    ],
)
def test_invalid_options_are_refused(cloud: Cloud, options: str, code: int, said: str) -> None:
    assert said in stderr_of(*REPUBLISH, *options.split(), code=code)
