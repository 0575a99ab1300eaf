"""`outbox republish`, from the dedup table through the relay to whoever subscribes to the topic."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from once.schema import CLOCK_SKEW_SECONDS
from tests.ops.outboxes import REPUBLISH, event, ids, numbers, published
from tests.ops.support import Cloud, answer_with, refusal, run


def hours_ago(hours: float) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat()


def test_events_are_published_as_they_were_committed(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    bodies = [event("orders#a"), event("orders#a", 1), event("inventory#b")]
    commit("orders#a", *bodies[:2])
    commit("inventory#b", bodies[2])
    commit("inventory#c")
    assert run(*REPUBLISH, "2h").exit_code == 0
    assert cloud.take("orders") == Counter(bodies)


def test_summary_counts_records_and_events_by_type(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("orders#a"), event("orders#a", 1, "stock.reserved"))
    commit("orders#b", event("orders#b"))
    commit("orders#c")
    result = run(*REPUBLISH, "2h")
    assert "┃ published " in result.stdout
    assert numbers(result.stdout) == {
        "records read": "2",
        "records left out as too old": "0",
        "order.placed": "2",
        "stock.reserved": "1",
        "events": "3",
    }


def test_only_what_was_committed_in_between_is_published(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    for age in (1, 3, 5):
        commit(f"orders#{age}", event(f"orders#{age}"), age=age)
    assert run(*REPUBLISH, "4h", "--until", hours_ago(2)).exit_code == 0
    assert published(cloud) == ids("orders#3")
    assert run(*REPUBLISH, hours_ago(4)).exit_code == 0
    assert published(cloud) == ids("orders#1", "orders#3")


def test_what_functions_with_other_clocks_committed_in_between_is_published(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    skew = CLOCK_SKEW_SECONDS / 3600  # ages are in hours
    ages = {
        "fast": 2 - 0.9 * skew,
        "after": 2 - 1.1 * skew,
        "slow": 4 + 0.9 * skew,
        "before": 4 + 1.1 * skew,
    }
    for name, age in ages.items():
        commit(f"orders#{name}", event(f"orders#{name}"), age=age)
    assert run(*REPUBLISH, "4h", "--until", hours_ago(2)).exit_code == 0
    assert published(cloud) == ids("orders#fast", "orders#slow")


def test_consumer_is_chosen_by_its_whole_name(cloud: Cloud, commit: Callable[..., None]) -> None:
    for pk in ("orders#a", "orders_archive#b", "inventory#c"):
        commit(pk, event(pk))
    assert run(*REPUBLISH, "2h", "--consumer", "orders").exit_code == 0
    assert published(cloud) == ids("orders#a")


@pytest.mark.parametrize("left", [-1, 1, 30 * 24 - 1])
def test_a_record_that_ends_before_the_message_may_is_left_out_and_counted(
    cloud: Cloud, commit: Callable[..., None], left: int
) -> None:
    commit("orders#a", event("orders#a"), expires_in=left)
    commit("orders#b", event("orders#b"), expires_in=30 * 24 + 1)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 0
    assert published(cloud) == ids("orders#b")
    assert numbers(result.stdout)["records left out as too old"] == "1"


def test_dry_run_counts_and_publishes_nothing(cloud: Cloud, commit: Callable[..., None]) -> None:
    commit("orders#a", event("orders#a"), event("orders#a", 1))
    result = run(*REPUBLISH, "2h", "--dry-run")
    assert result.exit_code == 0
    assert "┃ only counted " in result.stdout
    assert numbers(result.stdout)["events"] == "2"
    assert published(cloud) == set()


def test_every_page_of_the_table_is_read_consistently(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    asked: list[dict[str, Any]] = []
    answer_with("dynamodb.Scan", lambda params: asked.append(json.loads(params["body"])))
    filling = "x" * 200_000  # a page of a scan ends at 1 MB
    pks = [f"orders#{number}" for number in range(12)]
    for pk in pks:
        commit(pk, event(pk, data=filling))
    assert run(*REPUBLISH, "2h").exit_code == 0
    assert published(cloud) == ids(*pks)
    assert len(asked) > 1
    assert all(query["ConsistentRead"] for query in asked)


def test_table_that_cannot_be_read_is_told_as_by_other_commands(cloud: Cloud) -> None:
    answer_with("dynamodb.Scan", lambda params: refusal("AccessDeniedException", "no"))
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert "have this action granted" in result.stderr
    assert "Traceback" not in result.output


def test_unknown_consumer_is_answered_with_those_there_are(cloud: Cloud) -> None:
    result = run(*REPUBLISH, "2h", "--consumer", "refunds")
    assert result.exit_code == 1
    assert "choose one of inventory, orders" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("yesterday",), "Invalid value for --since: 'yesterday' is no point in time"),
        (("2d", "--until", "soon"), "Invalid value for --until: 'soon' is no point in time"),
        (("2d", "--until", "3d"), "is not before --until"),
        (("2999-01-01",), "is not before now"),
    ],
)
def test_times_that_cannot_be_are_refused(options: tuple[str, ...], said: str) -> None:
    result = run(*REPUBLISH, *options)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())
