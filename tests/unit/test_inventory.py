"""The inventory consumer: a whole order is reserved, or nothing of it, once."""

from collections.abc import Iterator
from typing import Any

import pytest

from functions.inventory.handler import consumer
from once.testing import FakeAws, cloud_event
from tests.unit.support import calls, facts, failures


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with FakeAws(consumer, {"stock": "sku", "reservations": "order_id"}) as fake:
        for sku in ("tea", "cup"):
            fake.put("stock", {"sku": sku, "available": 10})
        yield fake


def placed(*lines: tuple[str, int], order_id: str = "o-1") -> dict[str, Any]:
    data = {"order_id": order_id, "lines": [{"sku": s, "quantity": q} for s, q in lines]}
    return cloud_event("order.placed", data)


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
