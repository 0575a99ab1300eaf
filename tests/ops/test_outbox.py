"""`outbox republish`, from the dedup table through the relay to whoever subscribes to the topic."""

import io
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from once.keys import consumer_of, key_hash
from once.outbox import event_id_of
from ops.publish import ATTEMPTS
from ops.republish import BATCH_RECORDS, batches
from tests.ops.support import OK, Cloud, answer_with, refusal, run

REPUBLISH = ("outbox", "republish", "--since")
THROTTLED = {"Code": "Throttled", "SenderFault": False}
REFUSED = {"Code": "InvalidParameter", "SenderFault": True}


def event(pk: str, position: int = 0, event_type: str = "order.placed", **more: Any) -> str:
    """An event as the record's own consumer commits it."""
    head = {"id": event_id_of(key_hash(pk), position), "source": f"/once/{consumer_of(pk)}"}
    return json.dumps({**head, "type": event_type, **more})


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
            "commit": {"S": "c"},
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


def ids(*pks: str) -> set[str]:
    """The ids of these records' first events."""
    return {event_id_of(key_hash(pk), 0) for pk in pks}


def numbers(output: str) -> dict[str, str]:
    """The summary's rows."""
    cells = [line.strip("│").split("│") for line in output.splitlines() if line.startswith("│")]
    return {name.strip(): number.strip() for name, number in cells}


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


def test_consumer_is_chosen_by_its_whole_name(cloud: Cloud, commit: Callable[..., None]) -> None:
    for pk in ("orders#a", "orders_archive#b", "inventory#c"):
        commit(pk, event(pk))
    assert run(*REPUBLISH, "2h", "--consumer", "orders").exit_code == 0
    assert published(cloud) == ids("orders#a")


@pytest.mark.parametrize("left", [-1, 1, 28 * 24 - 1])
def test_a_record_that_ends_before_the_message_may_is_left_out_and_counted(
    cloud: Cloud, commit: Callable[..., None], left: int
) -> None:
    commit("orders#a", event("orders#a"), expires_in=left)
    commit("orders#b", event("orders#b"), expires_in=28 * 24 + 1)
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


def test_unreadable_outbox_is_told_by_the_keys_hash_after_all_others_were_published(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    pks = [f"orders#{number}" for number in range(5)]
    for pk in pks:
        commit(pk, event(pk))
    commit("orders#customer-7", outbox='[{"id": "secret-of-customer-7", "source": 1}]')
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert published(cloud) == ids(*pks)
    assert numbers(result.stdout)["events"] == "5"
    assert f"  {key_hash('orders#customer-7')}\n" in result.stderr
    assert "`dlq list --consumer outbox_relay` says why" in result.stderr
    assert "customer-7" not in result.output
    [letter] = cloud.relay_dead_letters()
    assert letter["MessageAttributes"]["once-reason"]["StringValue"] == "unpublishable"


def test_dry_run_tells_of_unreadable_outboxes_and_leaves_no_dead_letter(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("orders#a"))
    commit("orders#b", outbox="no JSON")
    result = run(*REPUBLISH, "2h", "--dry-run")
    assert result.exit_code == 1
    assert numbers(result.stdout)["events"] == "1"
    assert "the outbox of these records cannot be read" in result.stderr
    assert f"  {key_hash('orders#b')}\n" in result.stderr
    assert cloud.relay_dead_letters() == []


def test_forged_event_is_not_published_and_its_record_is_told_once(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    pk = "orders#a"
    forged = [event(pk, 1, "payment.captured"), event(pk, 2, source="/once/payments")]
    commit(pk, event(pk), *forged)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert published(cloud) == ids(pk)
    assert result.stderr.count(key_hash(pk)) == 1
    assert {letter["Body"] for letter in cloud.relay_dead_letters()} == {*forged}


def test_event_that_the_topic_refuses_is_told_and_others_are_tried_again(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    failed = [{"Id": "0", **REFUSED}, {"Id": "1", **THROTTLED}]
    answers = [(OK, {"Successful": [{"Id": "2"}], "Failed": failed})]
    answer_with("sns.PublishBatch", lambda params: answers.pop() if answers else None)
    bodies = [event("orders#a", position) for position in range(3)]
    commit("orders#a", *bodies)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert cloud.take("orders") == Counter([bodies[1]])
    assert numbers(result.stdout)["events"] == "2"
    assert key_hash("orders#a") in result.stderr


def test_topic_that_takes_nothing_ends_the_command_with_the_remedy(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("orders#a"))
    cloud.relay_seconds = 0

    def answer(params: Any) -> Any:
        return OK, {"Successful": [], "Failed": [{"Id": "0", **THROTTLED}]}

    answer_with("sns.PublishBatch", answer)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert (
        "did not publish all of 1 records in 6 attempts "
        "(NotRelayed: 1 events are not published: Throttled)" in result.stderr
    )
    assert "run the same command again" in result.stderr
    assert len(cloud.invocations) == ATTEMPTS


def test_relay_that_fails_once_is_invoked_again(cloud: Cloud, commit: Callable[..., None]) -> None:
    commit("orders#a", event("orders#a"))
    died = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage": "timed out"}')}
    answers = [(OK, died)]
    answer_with("lambda.Invoke", lambda params: answers.pop() if answers else None)
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 0
    assert published(cloud) == ids("orders#a")


def test_many_records_are_handed_over_in_batches_that_lambda_takes(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    pks = [f"orders#{number}" for number in range(BATCH_RECORDS + 20)]
    for pk in pks:
        commit(pk, event(pk))
    assert run(*REPUBLISH, "2h").exit_code == 0
    assert published(cloud) == ids(*pks)
    assert [len(request["Records"]) for request in cloud.invocations] == [BATCH_RECORDS, 20]


def test_a_batch_ends_where_its_request_would_be_too_large() -> None:
    # Escaped as JSON, an outbox takes up to twice its size.
    item = {"pk": {"S": "orders#a"}, "commit": {"S": "c"}, "outbox": {"S": '"' * 390_000}}
    found = [*batches([item] * 20)]
    assert [len(batch) for batch in found] == [6, 6, 6, 2]
    assert all(len(json.dumps({"Records": batch})) < 6 * 1024 * 1024 for batch in found)


def test_an_outbox_of_bytes_is_handed_over_as_the_stream_does() -> None:
    item = {"pk": {"S": "orders#a"}, "commit": {"S": "c"}, "outbox": {"B": b"x"}}
    [[record]] = batches([item])
    assert record["dynamodb"]["NewImage"]["outbox"] == {"B": "eA=="}


def test_relay_that_may_not_be_invoked_is_told_with_the_remedy(
    cloud: Cloud, commit: Callable[..., None]
) -> None:
    commit("orders#a", event("orders#a"))
    answer_with("lambda.Invoke", lambda params: refusal("AccessDeniedException", "no"))
    result = run(*REPUBLISH, "2h")
    assert result.exit_code == 1
    assert "have this action granted" in result.stderr


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
