"""The end-to-end measurement, without an embedded AWS; and the two webhook functions."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import embedded, webhooks
from benchmarks.batches import Wrong
from benchmarks.contenders import Connect
from benchmarks.deployed.verify_then_put import Handle
from benchmarks.webhooks import FUNCTIONS, INGRESS, PUT, Kind
from tests.benchmarks.bench import MemoryServer


def test_a_missing_order_makes_the_measurement_invalid() -> None:
    pages = [{"Count": 10}, {"Count": 9}]
    scan = SimpleNamespace(paginate=lambda **_: pages)
    dynamodb = SimpleNamespace(get_paginator=lambda _: scan)
    with pytest.raises(Wrong, match="raw, embedded: 20 orders were sent, 19 are stored"):
        embedded.check_stored(dynamodb, "raw", "orders", 20, "orders")


COSTS = {  # requests and write units of one webhook of 2 KB
    (PUT, Kind.GENUINE): (1, 3),
    (PUT, Kind.DUPLICATE): (1, 3),
    (PUT, Kind.FORGED): (0, 0),
    (INGRESS, Kind.GENUINE): (1, 14),
    (INGRESS, Kind.DUPLICATE): (1, 14),
    (INGRESS, Kind.FORGED): (0, 0),
}


def test_both_functions_answer_the_same_requests_at_their_costs() -> None:
    found = webhooks.measure(MemoryServer(), 0, pairs=4)
    assert {
        (row["contender"], row["request"]): (row["requests"], row["write_units"]) for row in found
    } == COSTS
    assert {row["repeats"] for row in found} == {4}


def accepting(connect: Connect) -> Handle:
    """Answer everything, and store nothing."""
    return lambda *_: {"statusCode": 200}


def capturing_again(connect: Connect) -> Handle:
    """The plain function, but it stores duplicates as well."""
    client = connect("dynamodb")

    class Unconditional:
        def put_item(self, *, ConditionExpression: str, **put: Any) -> Any:  # noqa: N803
            return client.put_item(**put)

    return FUNCTIONS[PUT](lambda _: Unconditional())


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (accepting, "a forged webhook was answered with 200 instead of 401"),
        (capturing_again, r"48 captures were expected; 48 were put, \d+ times"),
    ],
)
def test_a_broken_function_is_detected(
    broken: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "FUNCTIONS", {**FUNCTIONS, PUT: broken})
    with pytest.raises(Wrong, match=message):
        webhooks.measure(MemoryServer(), 0, pairs=4)
