from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from once.testing import FakeAws, cloud_event
from stacks.registry import REGISTRY
from tests.functions.support import published
from tests.once.support import calls, failures, reasons

PRICES = defaultdict(lambda: 1, tea=350, cup=1200)
FULL = {"tea": 10, "cup": 10}
ENDS = ["payment.captured", "payment.declined"]

Lines = list[tuple[str, int]]


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with FakeAws.of(REGISTRY, "inventory") as fake:
        for sku, available in FULL.items():
            fake.put("stock", {"sku": sku, "available": available})
        yield fake


def placed(*lines: tuple[str, int], order_id: str = "o-1") -> dict[str, Any]:
    data = {
        "order_id": order_id,
        "email": "a@example.com",
        "payment_method": "pm_1",
        "currency": "EUR",
        "lines": [{"sku": sku, "quantity": q, "unit_price": PRICES[sku]} for sku, q in lines],
    }
    return cloud_event("order.placed", data)


def ended(event_type: str, order_id: str = "o-1") -> dict[str, Any]:
    return cloud_event(event_type, {"order_id": order_id, "more": "is ignored"})


def stock(aws: FakeAws) -> dict[str, int]:
    return {item["sku"]: int(item["available"]) for item in aws.items("stock")}


def reservations(aws: FakeAws) -> dict[str, str]:
    items = aws.items("reservations")
    return {i["order_id"]: f"{i['status']} {i.get('out_of_stock', '')}".strip() for i in items}


def deliver_twice(aws: FakeAws, event: Any) -> None:
    """Deliver an event twice in one batch, and once more in the next one."""
    assert failures(aws.deliver(event, event)) == failures(aws.deliver(event)) == []


def test_every_line_is_reserved_once(aws: FakeAws) -> None:
    deliver_twice(aws, placed(("tea", 3), ("cup", 10)))
    assert stock(aws) == {"tea": 7, "cup": 0}
    assert reservations(aws) == {"o-1": "reserved"}


def test_an_article_on_two_lines_is_one_write(aws: FakeAws) -> None:
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(placed(("tea", 3), ("cup", 1), ("tea", 4)))) == []
    assert [len(p["TransactItems"]) for _, p in made] == [4]  # record, tea, cup, reservation
    assert stock(aws) == {"tea": 3, "cup": 9}


@pytest.mark.parametrize(
    ("lines", "short"),
    [
        ([("tea", 11)], "tea"),
        ([("tea", 6), ("tea", 6)], "tea"),
        ([("tea", 1), ("cup", 11)], "cup"),
        ([("cup", 11), ("tea", 1)], "cup"),
        ([("tea", 1), ("nowhere", 1)], "nowhere"),
        ([("tea", 11), ("cup", 11)], "tea"),
    ],
)
def test_an_article_out_of_stock_refuses_the_whole_order(
    aws: FakeAws, lines: Lines, short: str
) -> None:
    assert failures(aws.deliver(placed(*lines))) == []
    assert stock(aws) == FULL
    assert reservations(aws) == {"o-1": f"refused {short}"}
    [record] = aws.items("dedup")
    assert (record["outcome"], record["refusal"]) == ("refused", "OutOfStock")
    assert aws.dead_letters() == []


def test_a_refused_order_stays_refused_after_a_delivery_of_stock(aws: FakeAws) -> None:
    event = placed(("tea", 11))
    aws.deliver(event)
    aws.put("stock", {"sku": "tea", "available": 100})
    assert failures(aws.deliver(event)) == []
    assert stock(aws)["tea"] == 100
    assert reservations(aws) == {"o-1": "refused tea"}


def test_orders_are_reserved_until_stock_runs_out(aws: FakeAws) -> None:
    aws.deliver(*(placed(("tea", 4), order_id=f"o-{i}") for i in range(4)))
    assert stock(aws)["tea"] == 2
    assert sorted(reservations(aws).values()) == [*["refused tea"] * 2, *["reserved"] * 2]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param([], "invalid-data", id="no lines"),
        pytest.param([("tea", 0)], "invalid-data", id="quantity of zero"),
        pytest.param([("tea", -1)], "invalid-data", id="negative quantity"),
        pytest.param([(f"sku-{i}", 1) for i in range(99)], "too-large", id="too many articles"),
    ],
)
def test_an_invalid_order_is_quarantined(aws: FakeAws, lines: Lines, reason: str) -> None:
    aws.deliver(placed(*lines), fails=True)
    assert reasons(aws) == [reason]
    assert stock(aws) == FULL


def test_a_reservation_is_published_once_with_the_amount(aws: FakeAws) -> None:
    event = placed(("tea", 2), ("cup", 1), ("tea", 1))
    aws.deliver(event, event)
    data = {
        "order_id": "o-1",
        "email": "a@example.com",
        "payment_method": "pm_1",
        "currency": "EUR",
        "amount": 3 * 350 + 1200,
    }
    assert published(aws) == [("stock.reserved", "o-1", data)]


def test_only_the_refusal_of_a_refused_order_is_published(aws: FakeAws) -> None:
    event = placed(("tea", 11))
    aws.deliver(event, event)
    data = {"order_id": "o-1", "email": "a@example.com"}
    assert published(aws) == [("stock.refused", "o-1", data)]


def test_a_paid_order_is_sold_once(aws: FakeAws) -> None:
    aws.deliver(placed(("tea", 3)))
    deliver_twice(aws, ended("payment.captured"))
    assert stock(aws) == {"tea": 7, "cup": 10}
    assert reservations(aws) == {"o-1": "sold"}


def test_a_declined_order_is_released_once(aws: FakeAws) -> None:
    aws.deliver(placed(("tea", 3), ("cup", 1), ("tea", 1)), placed(("tea", 2), order_id="o-2"))
    deliver_twice(aws, ended("payment.declined"))
    assert stock(aws) == {"tea": 8, "cup": 10}
    assert reservations(aws) == {"o-1": "released", "o-2": "reserved"}


@pytest.mark.parametrize("second", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_a_second_end_of_an_order_is_retried_and_changes_nothing(
    aws: FakeAws, first: str, second: str
) -> None:
    aws.deliver(placed(("tea", 3)))
    aws.deliver(ended(first))
    found = stock(aws), reservations(aws)
    assert len(failures(aws.deliver(ended(second), fails=True))) == 1
    assert (stock(aws), reservations(aws)) == found


@pytest.mark.parametrize("event_type", ENDS)
def test_the_end_of_an_order_without_reservation_is_retried(aws: FakeAws, event_type: str) -> None:
    aws.deliver(placed(("tea", 11)))  # refused
    assert len(failures(aws.deliver(ended(event_type), ended(event_type, "o-9"), fails=True))) == 2
    assert stock(aws) == FULL
    assert reservations(aws) == {"o-1": "refused tea"}
