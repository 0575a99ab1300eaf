"""Options as text: what they become, and that each mistake is explained."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from redelivery import Answer, Table
from redelivery.options import (
    parse_answer,
    parse_duration,
    parse_event,
    parse_fault,
    parse_items,
    parse_pair,
    parse_table,
)

PAY = "https://pay.example/v1/charges"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with files that options name."""
    (tmp_path / "stock.json").write_text('[{"sku": "a", "price": 1.1}]')
    (tmp_path / "one.json").write_text('{"sku": "a"}')
    (tmp_path / "page.html").write_text("<p>paid</p>")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("orders:order_id", Table("orders", "order_id")),
        ("orders:customer:placed_at", Table("orders", "customer", "placed_at")),
        ("days:day:N", Table("days", "day:N")),
        ("days:shop:S:day:N", Table("days", "shop:S", "day:N")),
        ("odd:pk:S:N", Table("odd", "pk:S", "N")),
        ("seen:pk,ttl=expires", Table("seen", "pk", ttl="expires")),
        ("seen:pk,ttl=expires,compared", Table("seen", "pk", ttl="expires", compared=True)),
        ("log:pk,not-compared", Table("log", "pk", compared=False)),
    ],
)
def test_a_table_is_read(text: str, table: Table) -> None:
    assert parse_table(text) == table


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (PAY, Answer(PAY)),
        (f"POST {PAY}", Answer(PAY, method="POST")),
        (f"post {PAY}=503", Answer(PAY, 503, method="POST")),
        (f'{PAY}=200:{{"id": "ch_1"}}', Answer(PAY, body={"id": "ch_1"})),
        (f"{PAY}?a=b=404:one.json", Answer(f"{PAY}?a=b", 404, {"sku": "a"})),
        (f"{PAY}=200:page.html", Answer(PAY, body=b"<p>paid</p>")),
    ],
)
def test_an_answer_is_read(text: str, answer: Answer) -> None:
    assert parse_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("12h", 43200), ("14d", 1209600)]
)
def test_a_duration_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


def test_items_have_decimals_since_boto3_takes_no_floats() -> None:
    assert parse_items("stock=stock.json") == ("stock", [{"sku": "a", "price": Decimal("1.1")}])


@pytest.mark.parametrize(
    ("piped", "event"), [('{"id": 1}', {"id": 1}), ("plain text", "plain text")]
)
def test_an_event_is_read_from_standard_input(
    piped: str, event: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    assert parse_event("-") == event


def test_an_event_in_a_file_is_an_absolute_path(folder: Path) -> None:
    assert parse_event("one.json") == folder / "one.json"


@pytest.mark.parametrize(
    ("parse", "text", "remedy"),
    [
        (parse_table, "orders", "write name:key"),
        (parse_table, ":order_id", "write name:key"),
        (parse_table, "orders:", "write name:key"),
        (parse_table, "orders:a:b:c", "write name:key"),
        (parse_table, "orders:a,ttl", "'ttl' is not ttl=attribute, compared or not-compared"),
        (parse_items, "stock", r"write table=file\.json"),
        (parse_items, "stock=none.json", "cannot be read: No such file"),
        (parse_items, "stock=page.html", "holds no JSON"),
        (parse_items, "stock=one.json", "a JSON list of objects"),
        (parse_answer, "pay.example=200", r"write \[METHOD "),
        (parse_answer, f"{PAY}=200:none.json", "neither JSON nor a readable file"),
        (parse_duration, "two days", "for example 90s"),
        (parse_duration, "0s", "a number above 0"),
        (parse_pair, "TABLE", "write NAME=VALUE"),
        (parse_pair, "=orders", "write NAME=VALUE"),
        (parse_event, "none.json", "no such file; give a message's body"),
        (parse_fault, "dies-befor", r"did you mean dies-before\?"),
        (parse_fault, "rain", "`redelivery faults` lists them"),
    ],
)
def test_a_mistake_says_how_to_correct_it(parse: Any, text: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        parse(text)


def test_empty_standard_input_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    with pytest.raises(ValueError, match="pipe a message's body"):
        parse_event("-")
