"""Finding dedup records: pages of a scan, batches of keys, and a table without capacity."""

import json
from typing import Any

import pytest

from once.ops.aws.batch_calls import ATTEMPTS
from once.schema import Limits
from tests.ops.support import OK, answer_with, run
from tests.ops.tracing import TABLE, Saga, moments, placed


def requests(operation: str) -> list[dict[str, Any]]:
    """Every request of an operation from now on."""
    asked: list[dict[str, Any]] = []
    answer_with(operation, lambda params: asked.append(json.loads(params["body"])))
    return asked


@pytest.mark.parametrize("form", ["id", "hash"])
def test_every_page_of_the_table_is_read_consistently(saga: Saga, form: str) -> None:
    asked = requests("dynamodb.Scan")
    for number in range(12):  # a page of a scan ends at 1 MB
        saga.commit("orders", placed(f"o-{number}"), filling={"S": "x" * 200_000})
    found = [moments(f"placed-o-{number}") for number in (0, 5, 11)]
    if form == "hash":
        found = [moments(moment["key_hash"]) for [moment] in found]
    assert [len(some) for some in found] == [1, 1, 1]
    assert len(asked) > 3
    assert all(query["ConsistentRead"] for query in asked)


def test_keys_are_asked_for_consistently_a_hundred_at_a_time(saga: Saga) -> None:
    data = {f"field_{number}": number for number in range(8)} | {"order_id": "o-1"}
    saga.commit("notifications", placed("o-1", data=data), "customer.told")
    saga.order("o-1")
    asked = requests("dynamodb.BatchGetItem")
    moments("o-1", "--no-logs")
    sizes = [len(query["RequestItems"][TABLE]["Keys"]) for query in asked]
    assert max(sizes) <= Limits.BATCH_GET_KEYS
    assert all(query["RequestItems"][TABLE]["ConsistentRead"] for query in asked)
    keys = [key["pk"]["S"] for q in asked for key in q["RequestItems"][TABLE]["Keys"]]
    assert len(keys) == len(set(keys))


def test_keys_that_dynamodb_did_not_get_to_are_asked_for_again(saga: Saga) -> None:
    saga.commit("orders", placed("o-1"))
    saga.commit("inventory", placed("o-1"))
    unread: list[Any] = []

    def answer(params: Any) -> Any:
        if unread:
            return None
        unread.append(json.loads(params["body"])["RequestItems"])
        return OK, {"Responses": {}, "UnprocessedKeys": unread[0]}

    answer_with("dynamodb.BatchGetItem", answer)
    assert len(moments(saga.pk("orders", placed("o-1")), "--no-scan")) == 2


def test_a_table_without_capacity_ends_the_command_with_the_remedy(saga: Saga) -> None:
    asked: list[Any] = []

    def answer(params: Any) -> Any:
        asked.append(params)
        keys = json.loads(params["body"])["RequestItems"]
        return OK, {"Responses": {}, "UnprocessedKeys": keys}

    answer_with("dynamodb.BatchGetItem", answer)
    result = run("trace", "orders#event#/shop#e")
    assert result.exit_code == 1
    assert "no capacity to read records of physical-dedup: run the command again" in result.stderr
    assert len(asked) == ATTEMPTS


def test_a_key_that_is_too_long_is_not_asked_for(saga: Saga) -> None:
    asked = requests("dynamodb.BatchGetItem")
    longest = "orders#" + "x" * (Limits.PARTITION_KEY_BYTES - len("orders#"))
    assert run("trace", longest, "--no-scan").exit_code == 1
    assert len(asked) == 1
    assert run("trace", longest + "x", "--no-scan").exit_code == 1
    assert len(asked) == 1


def test_an_id_in_an_event_that_was_published_is_as_good_as_one_in_a_key(saga: Saga) -> None:
    saga.commit("inventory", placed("a", data={"order_id": "\u00e9-1"}), "stock.reserved")
    saga.commit("inventory", placed("b", data={"order_id": "\u00e9-10"}), "stock.reserved")
    assert len(moments("\u00e9-1")) == 1


@pytest.mark.parametrize("key", ["str:7", "int:7", "7"])
def test_a_number_is_found_as_a_number_and_as_text(saga: Saga, key: str) -> None:
    for number, pk in enumerate(("a#id#int:7", "a#id#str:7", "a#id#int:77", "a#7x")):
        saga.cloud.dynamodb.put_item(
            TableName=TABLE,
            Item={"pk": {"S": f"orders#{pk}"}, "committed_at": {"N": str(number)}},
        )
    expected = {"7": 2, "str:7": 1, "int:7": 1}[key]
    assert len(moments(key)) == expected
