from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from once.testing import FakeAws, cloud_event
from tests.once.support import calls, failures, published, reasons

PRICES = defaultdict(lambda: 1, tea=350, cup=1200)
FULL = {"tea": 10, "cup": 10}
ENDS = ["payment.captured", "payment.declined", "order.cancelled"]

Lines = list[tuple[str, int]]


@pytest.fixture
def aws(once_aws: Callable[..., FakeAws]) -> FakeAws:
    fake = once_aws("inventory")
    fake.given("stock", *({"sku": sku, "available": number} for sku, number in FULL.items()))
    return fake


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


def test_an_article_on_two_lines_is_reserved_by_one_write(aws: FakeAws) -> None:
    with calls(aws.runtime.dynamodb) as made:
        aws.deliver(placed(("tea", 3), ("cup", 10), ("tea", 4)))
    assert len(made[0][1]["TransactItems"]) == 4  # record, tea, cup, reservation
    assert stock(aws) == {"tea": 3, "cup": 0}
    assert reservations(aws) == {"o-1": "reserved"}


@pytest.mark.parametrize(
    ("lines", "short"),
    [
        ([("tea", 6), ("tea", 6)], "tea"),
        ([("tea", 1), ("nowhere", 1)], "nowhere"),
        ([("tea", 11), ("cup", 11)], "tea"),
    ],
)
def test_an_article_out_of_stock_refuses_the_whole_order(
    aws: FakeAws, lines: Lines, short: str
) -> None:
    aws.deliver(placed(*lines))
    assert stock(aws) == FULL
    assert reservations(aws) == {"o-1": f"refused {short}"}
    [record] = aws.items("dedup")
    assert (record["outcome"], record["refusal"]) == ("refused", "OutOfStock")
    assert aws.dead_letters() == []


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param([], "invalid-data", id="no lines"),
        pytest.param([("tea", 0)], "invalid-data", id="quantity of zero"),
        pytest.param([(f"sku-{i}", 1) for i in range(99)], "too-large", id="too many articles"),
    ],
)
def test_an_invalid_order_is_quarantined(aws: FakeAws, lines: Lines, reason: str) -> None:
    aws.deliver(placed(*lines), fails=True)
    assert reasons(aws) == [reason]
    assert stock(aws) == FULL


def test_what_became_of_an_order_is_published_once(aws: FakeAws) -> None:
    taken = placed(("tea", 2), ("cup", 1), ("tea", 1))
    refused = placed(("tea", 11), order_id="o-2")
    aws.deliver(taken, refused)
    data = {"order_id": "o-1", "email": "a@example.com"}
    terms = {"payment_method": "pm_1", "currency": "EUR", "amount": 3 * 350 + 1200}
    assert sorted(published(aws)) == [
        ("payment.overdue", "o-1", data | {"currency": "EUR", "amount": 3 * 350 + 1200}),
        ("stock.refused", "o-2", data | {"order_id": "o-2"}),
        ("stock.reserved", "o-1", data | terms),
    ]


def test_a_paid_order_is_sold_and_a_declined_one_released_once(aws: FakeAws) -> None:
    aws.deliver(placed(("tea", 3), ("cup", 1), ("tea", 1)), placed(("tea", 2), order_id="o-2"))
    aws.deliver(ended("payment.declined"))
    aws.deliver(ended("payment.captured", "o-2"))
    assert stock(aws) == {"tea": 8, "cup": 10}
    assert reservations(aws) == {"o-1": "released", "o-2": "sold"}


@pytest.mark.parametrize(("first", "second"), [ENDS[:2], ENDS[1::-1], ENDS[1:]])
def test_a_second_end_of_an_order_is_retried_and_changes_nothing(
    aws: FakeAws, first: str, second: str
) -> None:
    aws.deliver(placed(("tea", 3)))
    aws.deliver(ended(first))
    found = stock(aws), reservations(aws)
    assert len(failures(aws.deliver(ended(second), fails=True))) == 1
    assert (stock(aws), reservations(aws)) == found


def test_the_end_of_an_order_without_reservation_is_retried(aws: FakeAws) -> None:
    aws.deliver(placed(("tea", 11)))  # refused
    assert len(failures(aws.deliver(ended(ENDS[0]), ended(ENDS[1], "o-9"), fails=True))) == 2
    assert stock(aws) == FULL
    assert reservations(aws) == {"o-1": "refused tea"}
