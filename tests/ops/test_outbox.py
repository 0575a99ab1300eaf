"""`outbox republish`, from the dedup table to whoever subscribes to the topic."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from once.contract import CLOCK_SKEW_SECONDS
from once.keys import key_hash
from ops.publish import ATTEMPTS
from tests.ops.support import OK, Cloud, answer_with, refusal, run

REPUBLISH = ("outbox", "republish", "--since")
THROTTLED = {"Code": "Throttled", "SenderFault": False}
REFUSED = {"Code": "InvalidParameter", "SenderFault": True}


def event(name: str, event_type: str = "order.placed") -> str:
    return json.dumps({"id": name, "source": "/once/orders", "type": event_type})


@pytest.fixture
def commit(cloud: Cloud) -> Callable[..., None]:
    """Write a dedup record; ages in hours."""

    def commit(
        pk: str,
        *events: str,
        age: float = 1,
        expires_in: float = 45 * 24,
        outbox: str | None = None,
    ) -> None:
        now = datetime.now(UTC)
        committed, expires = now - timedelta(hours=age), now + timedelta(hours=expires_in)
        item = {
            "pk": {"S": pk},
            "committed_at": {"N": str(int(committed.timestamp() * 1000))},
            "expires_at": {"N": str(int(expires.timestamp()))},
        }
        if events or outbox:
            item["outbox"] = {"S": outbox or f"[{','.join(events)}]"}
        cloud.dynamodb.put_item(TableName="physical-dedup", Item=item)

    return commit


def published(cloud: Cloud) -> set[str]:
    """The ids of the events that reached a queue which subscribes by their type."""
    return {json.loads(body)["id"] for body in cloud.take("orders")}


def numbers(output: str) -> dict[str, str]:
    """The summary's rows."""
    cells = [line.strip("│").split("│") for line in output.splitlines() if line.startswith("│")]
    return {name.strip(): number.strip() for name, number in cells}


def hours_ago(hours: float) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).isoformat()


def test_events_are_published_as_they_were_committed(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    bodies = [event("a.0"), event("a.1"), event("b.0")]
    commit("orders#a", *bodies[:2])
    commit("inventory#b", bodies[2])
    commit("inventory#c")
    assert run(*REPUBLISH, "2h").exit_code == 0
    assert cloud.take("orders") == Counter(bodies)


def test_summary_counts_records_and_events_by_type(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("a.0"), event("a.1", "stock.reserved"))
    commit("orders#b", event("b.0"))
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
        commit(f"orders#{age}", event(f"{age}"), age=age)
    assert run(*REPUBLISH, "4h", "--until", hours_ago(2)).exit_code == 0
    assert published(cloud) == {"3"}
    assert run(*REPUBLISH, hours_ago(4)).exit_code == 0
    assert published(cloud) == {"1", "3"}


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
        commit(f"orders#{name}", event(name), age=age)
    assert run(*REPUBLISH, "4h", "--until", hours_ago(2)).exit_code == 0
    assert published(cloud) == {"fast", "slow"}


def test_consumer_is_chosen_by_its_whole_name(cloud: Cloud, commit: Callable[..., None]) -> None:
    commit("orders#a", event("a"))
    commit("orders_archive#b", event("b"))
    commit("inventory#c", event("c"))
    assert run(*REPUBLISH, "2h", "--consumer", "orders").exit_code == 0
    assert published(cloud) == {"a"}


@pytest.mark.parametrize("left", [-1, 1, 28 * 24 - 1])
def test_a_record_that_ends_before_the_message_may_is_left_out_and_counted(
    cloud: Cloud, commit: Callable[..., None], left: int
) -> None:
    commit("orders#a", event("a"), expires_in=left)
    commit("orders#b", event("b"), expires_in=28 * 24 + 1)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 0
    assert published(cloud) == {"b"}
    assert numbers(result.stdout)["records left out as too old"] == "1"


def test_dry_run_counts_and_publishes_nothing(cloud: Cloud, commit: Callable[..., None]) -> None:
    commit("orders#a", event("a.0"), event("a.1"))
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
    for number in range(12):
        commit(f"orders#{number}", event(f"{number}")[:-1] + f', "data": "{filling}"}}')
    assert run(*REPUBLISH, "2h").exit_code == 0
    assert published(cloud) == {str(number) for number in range(12)}
    assert len(asked) > 1
    assert all(query["ConsistentRead"] for query in asked)


def test_unreadable_outbox_is_told_by_the_keys_hash_after_all_others_were_published(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    for number in range(5):
        commit(f"orders#{number}", event(f"{number}"))
    commit("orders#customer-7", outbox='[{"id": "secret-of-customer-7", "source": 1}]')
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert published(cloud) == {"0", "1", "2", "3", "4"}
    assert numbers(result.stdout)["events"] == "5"
    assert f"{key_hash('orders#customer-7')}: the outbox cannot be read" in result.stderr
    assert "customer-7" not in result.output


def test_event_that_the_topic_refuses_is_told_and_others_are_tried_again(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    failed = [{"Id": "0", **REFUSED}, {"Id": "1", **THROTTLED}]
    answers = [(OK, {"Successful": [{"Id": "2"}], "Failed": failed})]
    answer_with("sns.PublishBatch", lambda params: answers.pop() if answers else None)
    commit("orders#a", event("refused"), event("throttled"), event("taken"))
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert published(cloud) == {"throttled"}
    assert numbers(result.stdout)["events"] == "2"
    assert f"{key_hash('orders#a')}: the topic refuses InvalidParameter" in result.stderr


def test_topic_that_takes_nothing_ends_the_command_with_the_remedy(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("a"))
    asked: list[Any] = []

    def answer(params: Any) -> Any:
        asked.append(params)
        return OK, {"Successful": [], "Failed": [{"Id": "0", **THROTTLED}]}

    answer_with("sns.PublishBatch", answer)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert "1 events were not accepted in 6 attempts (Throttled)" in result.stderr
    assert "run the same command again" in result.stderr
    assert len(asked) == ATTEMPTS


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
