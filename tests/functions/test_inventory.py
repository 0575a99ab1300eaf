"""The inventory consumer: a whole order is reserved, or nothing of it; then sold or released."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from functions.inventory.handler import consumer
from once.testing import FakeAws, cloud_event
from tests.once.support import calls, facts, failures


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    publishes = ("stock.reserved", "stock.refused")
    tables = {"stock": "sku", "reservations": "order_id"}
    with FakeAws(consumer, tables, publishes=publishes) as fake:
        for sku in ("tea", "cup"):
            fake.put("stock", {"sku": sku, "available": 10})
        yield fake


PRICES = defaultdict(lambda: 1, tea=350, cup=1200)


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
    return cloud_event(event_type, {"order_id": order_id, "more": "is passed over"})


def published(aws: FakeAws) -> list[tuple[str, str, Any]]:
    """What the outboxes of all records say: type, subject and data of each event."""
    events = [e for record in aws.items("dedup") for e in json.loads(record.get("outbox", "[]"))]
    return [(event["type"], event["subject"], event["data"]) for event in events]


def stock(aws: FakeAws) -> dict[str, int]:
    return {item["sku"]: int(item["available"]) for item in aws.items("stock")}


def reservations(aws: FakeAws) -> dict[str, str]:
    return {
        item["order_id"]: item["status"] + " " + item.get("out_of_stock", "")
        for item in aws.items("reservations")
    }


def test_every_line_is_taken_out_of_stock(aws: FakeAws) -> None:
    assert failures(aws.deliver(placed(("tea", 3), ("cup", 10)))) == []
    assert stock(aws) == {"tea": 7, "cup": 0}
    assert reservations(aws) == {"o-1": "reserved "}


def test_an_order_is_reserved_once_however_often_it_comes(aws: FakeAws) -> None:
    event = placed(("tea", 3))
    aws.deliver(event, event)
    aws.deliver(event)
    assert stock(aws) == {"tea": 7, "cup": 10}


def test_an_article_on_two_lines_is_one_write(aws: FakeAws) -> None:
    with calls(aws.runtime.dynamodb) as made:
        assert failures(aws.deliver(placed(("tea", 3), ("cup", 1), ("tea", 4)))) == []
    assert [len(p["TransactItems"]) for _, p in made] == [4]  # record, tea, cup, reservation
    assert stock(aws) == {"tea": 3, "cup": 9}


def test_two_lines_that_are_too_much_together_are_refused(aws: FakeAws) -> None:
    aws.deliver(placed(("tea", 6), ("tea", 6)))
    assert stock(aws) == {"tea": 10, "cup": 10}
    assert reservations(aws) == {"o-1": "refused tea"}


@pytest.mark.parametrize(
    ("lines", "short"),
    [
        ([("tea", 11)], "tea"),
        ([("tea", 1), ("cup", 11)], "cup"),
        ([("cup", 11), ("tea", 1)], "cup"),
        ([("tea", 1), ("nowhere", 1)], "nowhere"),
        ([("tea", 11), ("cup", 11)], "tea"),
    ],
)
def test_out_of_stock_refuses_the_whole_order_and_moves_nothing(
    aws: FakeAws, lines: list[tuple[str, int]], short: str
) -> None:
    assert failures(aws.deliver(placed(*lines))) == []
    assert stock(aws) == {"tea": 10, "cup": 10}
    assert reservations(aws) == {"o-1": f"refused {short}"}
    [record] = aws.items("dedup")
    assert (record["outcome"], record["refusal"]) == ("refused", "OutOfStock")
    assert aws.dead_letters() == []


def test_a_refused_order_stays_refused_when_stock_comes(aws: FakeAws) -> None:
    event = placed(("tea", 11))
    aws.deliver(event)
    aws.put("stock", {"sku": "tea", "available": 100})
    assert failures(aws.deliver(event)) == []
    assert stock(aws)["tea"] == 100
    assert reservations(aws) == {"o-1": "refused tea"}


def test_the_last_articles_go_to_the_first_orders(aws: FakeAws) -> None:
    aws.deliver(*(placed(("tea", 4), order_id=f"o-{i}") for i in range(4)))
    assert stock(aws)["tea"] == 2
    assert sorted(reservations(aws).values()) == [*["refused tea"] * 2, *["reserved "] * 2]


@pytest.mark.parametrize("lines", [[], [("tea", 0)], [("tea", -1)]])
def test_an_order_of_nothing_is_quarantined(aws: FakeAws, lines: list[tuple[str, int]]) -> None:
    aws.deliver(placed(*lines))
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "invalid-data"
    assert stock(aws) == {"tea": 10, "cup": 10}


def test_an_order_of_more_articles_than_a_transaction_takes_is_quarantined(aws: FakeAws) -> None:
    aws.deliver(placed(*((f"sku-{i}", 1) for i in range(99))))
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "too-large"


def test_what_is_reserved_is_told_with_what_there_is_to_pay(aws: FakeAws) -> None:
    event = placed(("tea", 2), ("cup", 1), ("tea", 1))
    aws.deliver(event, event)
    told = {
        "order_id": "o-1",
        "email": "a@example.com",
        "payment_method": "pm_1",
        "currency": "EUR",
        "amount": 3 * 350 + 1200,
    }
    assert published(aws) == [("stock.reserved", "o-1", told)]


def test_what_is_refused_is_told_and_nothing_else(aws: FakeAws) -> None:
    event = placed(("tea", 11))
    aws.deliver(event, event)
    told = {"order_id": "o-1", "email": "a@example.com"}
    assert published(aws) == [("stock.refused", "o-1", told)]


def test_a_paid_order_is_sold_once(aws: FakeAws) -> None:
    aws.deliver(placed(("tea", 3)))
    event = ended("payment.captured")
    assert failures(aws.deliver(event, event)) == []
    assert failures(aws.deliver(event)) == []
    assert stock(aws) == {"tea": 7, "cup": 10}
    assert reservations(aws) == {"o-1": "sold "}


def test_a_declined_order_goes_back_on_the_shelf_once(aws: FakeAws) -> None:
    aws.deliver(placed(("tea", 3), ("cup", 1), ("tea", 1)), placed(("tea", 2), order_id="o-2"))
    event = ended("payment.declined")
    assert failures(aws.deliver(event, event)) == []
    assert failures(aws.deliver(event)) == []
    assert stock(aws) == {"tea": 8, "cup": 10}
    assert reservations(aws) == {"o-1": "released ", "o-2": "reserved "}


@pytest.mark.parametrize("event_type", ["payment.captured", "payment.declined"])
@pytest.mark.parametrize("before", ["payment.captured", "payment.declined"])
def test_another_event_of_the_same_end_moves_nothing_more(
    aws: FakeAws, before: str, event_type: str
) -> None:
    aws.deliver(placed(("tea", 3)))
    aws.deliver(ended(before))
    found = stock(aws), reservations(aws)
    assert len(failures(aws.deliver(ended(event_type)))) == 1
    assert (stock(aws), reservations(aws)) == found


@pytest.mark.parametrize("event_type", ["payment.captured", "payment.declined"])
def test_the_end_of_what_was_never_reserved_is_tried_again(aws: FakeAws, event_type: str) -> None:
    aws.deliver(placed(("tea", 11)))  # refused
    assert len(failures(aws.deliver(ended(event_type), ended(event_type, "o-9")))) == 2
    assert stock(aws) == {"tea": 10, "cup": 10}
    assert reservations(aws) == {"o-1": "refused tea"}
