"""Reading dedup records: by a scan of the table, or in batches of keys."""

import json
from typing import Any

import pytest

from once.ops.aws.batch_calls import ATTEMPTS
from once.schema import Limits
from tests.ops.output import stderr_of
from tests.ops.support import OK, answer_with, requests_of
from tests.ops.tracing import TABLE, Saga, moments, placed

GET = "dynamodb.BatchGetItem"


@pytest.mark.parametrize("form", ["id", "hash"])
def test_every_page_of_the_table_is_read_consistently(saga: Saga, form: str) -> None:
    asked = requests_of("dynamodb.Scan")
    events = [placed(f"o-{number}") for number in range(12)]
    for event in events:  # a page of a scan ends at 1 MB
        saga.commit("orders", event, filling={"S": "x" * 200_000})
    for event in (events[0], events[5], events[11]):
        key = event.id if form == "id" else saga.hash("orders", event)
        assert len(moments(key)) == 1
    assert len(asked) > 3
    assert all(query["ConsistentRead"] for query in asked)


def test_keys_are_read_consistently_in_batches_of_a_hundred(saga: Saga) -> None:
    data = {f"field_{number}": number for number in range(8)} | {"order_id": "o-1"}
    saga.commit("notifications", placed("o-1", data=data), "customer.told")
    saga.order("o-1")
    asked = requests_of(GET)
    moments("o-1", "--no-logs")
    batches = [request["RequestItems"][TABLE] for request in asked]
    assert max(len(batch["Keys"]) for batch in batches) <= Limits.BATCH_GET_KEYS
    assert all(batch["ConsistentRead"] for batch in batches)
    keys = [key["pk"]["S"] for batch in batches for key in batch["Keys"]]
    assert len(keys) == len(set(keys))


def leave_unprocessed(times: int) -> list[Any]:
    """Let DynamoDB leave all keys unprocessed, so many times; return the requests."""
    asked: list[Any] = []

    def answer(params: Any) -> Any:
        asked.append(json.loads(params["body"])["RequestItems"])
        return (
            (OK, {"Responses": {}, "UnprocessedKeys": asked[-1]}) if len(asked) <= times else None
        )

    answer_with(GET, answer)
    return asked


def test_unprocessed_keys_are_requested_again(saga: Saga) -> None:
    saga.commit("orders", placed("o-1"))
    saga.commit("inventory", placed("o-1"))
    leave_unprocessed(1)
    assert len(moments(saga.pk("orders", placed("o-1")), "--no-scan")) == 2


def test_error_for_a_table_without_capacity_names_a_remedy(saga: Saga) -> None:
    asked = leave_unprocessed(ATTEMPTS)
    said = stderr_of("trace", "orders#event#/shop#e")
    assert "no capacity to read records of physical-dedup: run the command again" in said
    assert len(asked) == ATTEMPTS


def test_key_above_the_size_limit_is_not_requested(saga: Saga) -> None:
    asked = requests_of(GET)
    longest = "orders#" + "x" * (Limits.PARTITION_KEY_BYTES - len("orders#"))
    for key in (longest, longest + "x"):
        stderr_of("trace", key, "--no-scan")
        assert len(asked) == 1


def test_id_in_a_published_event_is_matched_as_a_whole(saga: Saga) -> None:
    saga.commit("inventory", placed("a", data={"order_id": "\u00e9-1"}), "stock.reserved")
    saga.commit("inventory", placed("b", data={"order_id": "\u00e9-10"}), "stock.reserved")
    assert len(moments("\u00e9-1")) == 1


@pytest.mark.parametrize(("key", "number"), [("str:7", 1), ("int:7", 1), ("7", 2)])
def test_number_is_found_as_number_and_as_text(saga: Saga, key: str, number: int) -> None:
    for pk in ("a#id#int:7", "a#id#str:7", "a#id#int:77", "a#7x"):
        saga.cloud.put_record(f"orders#{pk}", saga.now, saga.now)
    assert len(moments(key)) == number
