"""Reading dedup records: in batches of keys."""

import json
from typing import Any

from once.names import Limits
from once.ops.aws.clients import ATTEMPTS
from tests.ops.output import stderr_of
from tests.ops.support import OK, answer_with, requests_of
from tests.ops.tracing import TABLE, Saga, moments, placed

GET = "dynamodb.BatchGetItem"


def test_keys_are_read_consistently_in_batches_of_a_hundred(saga: Saga) -> None:
    for number in range(105):
        saga.bury("orders", placed(f"o-{number}", data={"order_id": "same"}))
    asked = requests_of(GET)
    assert len(moments("same", "--no-logs")) == 105
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
    assert len(moments(saga.pk("orders", placed("o-1")))) == 2


def test_error_for_a_table_without_capacity_names_a_remedy(saga: Saga) -> None:
    asked = leave_unprocessed(ATTEMPTS)
    said = stderr_of("trace", "orders#event#/shop#e")
    assert "no capacity to read records of physical-dedup: run the command again" in said
    assert len(asked) == ATTEMPTS


def test_key_above_the_size_limit_is_not_requested(saga: Saga) -> None:
    asked = requests_of(GET)
    longest = "orders#" + "x" * (Limits.PARTITION_KEY_BYTES - len("orders#"))
    for key in (longest, longest + "x"):
        stderr_of("trace", key)
        assert len(asked) == 1
