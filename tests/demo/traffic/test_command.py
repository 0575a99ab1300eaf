"""The command `send`, from its options to the queues."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from demo.__main__ import app
from demo.traffic.command import parse_duplicates
from demo.traffic.plan import CARD, DECLINED_CARD, INITIAL_STOCK, plan_traffic
from tests.ops.cloud import Cloud
from tests.ops.support import OK, answer_with, run

NUMBERS = {"duplicates": 15, "conflicts": 3, "malformed": 4, "refusals": 5, "declines": 3}
OPTIONS = {"count": 30, **NUMBERS, "duplicates": "50%", "seed": 5}
WITH_FAULTS = tuple(f"--{name}={value}" for name, value in OPTIONS.items())


def send(*options: object, ok: bool = True) -> Result:
    result = run("send", *options, app=app)
    assert (result.exit_code == 0) is ok, result.output
    return result


def sent_with_faults(folder: Path, *options: object) -> dict[str, Any]:
    """Send sample traffic, and return its manifest."""
    file = folder / "reports" / "manifest.json"
    send(*WITH_FAULTS, "--manifest", file, *options)
    manifest: dict[str, Any] = json.loads(file.read_text())
    return manifest


def digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def unwrapped(text: str) -> str:
    """Return an error's text without the frame around it."""
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("consumer", ["orders", "inventory"])
def test_the_manifest_lists_the_messages_of_each_consumer(
    at_work: Cloud, tmp_path: Path, consumer: str
) -> None:
    manifest = sent_with_faults(tmp_path)
    bodies = at_work.delivered(consumer)
    assert manifest["sent"] == bodies.total() == 30 + 15 + 3 + 4
    hashes = Counter({digest(body): number for body, number in bodies.items()})
    assert {hashes[malformed] for malformed in manifest["malformed"]} == {1}
    valid = [(body, n) for body, n in bodies.items() if digest(body) not in manifest["malformed"]]
    for order in manifest["orders"]:
        times = [n for body, n in valid if json.loads(body)["id"] == order["event_id"]]
        assert max(times) == order["sends"]
        assert sum(times) == order["sends"] + order["conflicts"]


def test_the_manifest_adds_up(at_work: Cloud, tmp_path: Path) -> None:
    manifest = sent_with_faults(tmp_path)
    orders = manifest["orders"]
    assert (len(orders), len(manifest["malformed"])) == (30, 4)
    totals = {"sends": 45, "conflicts": 3, "refused": 5, "declined": 3}
    assert {name: sum(order[name] for order in orders) for name in totals} == totals
    for order in orders:
        assert order["payment_method"] == (DECLINED_CARD if order["declined"] else CARD)
        assert order["email"] == f"{order['customer_id']}@example.com"
        assert order["total"] == sum(
            line["quantity"] * line["unit_price"] for line in order["lines"]
        )
        assert {line["sku"] for line in order["lines"]} <= manifest["stock"].keys()
    assert manifest["seed"] == 5
    assert manifest["topic"] == at_work.outputs["once-service"]["IngressTopicArn"]
    assert manifest["consumers"] == ["inventory", "orders"]
    assert 0 <= manifest["seconds"] < 60


def test_late_messages_are_sent_after_the_others_were_processed(at_work: Cloud) -> None:
    send(*WITH_FAULTS)
    planned = plan_traffic(count=30, **NUMBERS, seed=5)
    late = Counter(order.body for order in planned.late)
    late += Counter(order.conflicting().body for order in planned.conflicts)
    assert at_work.worked_off["orders"].total() == planned.messages - late.total()
    assert at_work.take("orders") == late


def test_articles_are_in_stock_before_the_first_message(cloud: Cloud) -> None:
    found: list[dict[str, int]] = []
    answer_with("sns.PublishBatch", lambda params: found.append(cloud.stock()))
    send("--count", 4, "--refusals", 1, "--declines", 1, "--seed", 5)
    assert found == [plan_traffic(count=4, refusals=1, declines=1, seed=5).stock]


def test_an_existing_article_keeps_its_stock(cloud: Cloud) -> None:
    item = {"sku": {"S": "own-5-1"}, "available": {"N": "7"}}
    cloud.dynamodb.put_item(TableName="physical-stock", Item=item)
    send("--count", 2, "--seed", 5)
    assert cloud.stock()["own-5-1"] == 7
    assert cloud.stock()["own-5-2"] == INITIAL_STOCK


def test_no_stock_writes_none(cloud: Cloud) -> None:
    send("--count", 2, "--no-stock")
    assert cloud.stock() == {}
    assert cloud.take("orders").total() == 2


def test_the_queue_option_sends_to_one_consumer(at_work: Cloud, tmp_path: Path) -> None:
    manifest = sent_with_faults(tmp_path, "--queue", "inventory")
    assert at_work.delivered("inventory").total() == manifest["sent"]
    assert at_work.delivered("orders").total() == 0
    assert manifest["consumers"] == ["inventory"]


def test_a_message_that_sns_did_not_accept_is_sent_again(cloud: Cloud) -> None:
    failed = {"Id": "0", "Code": "Throttled", "SenderFault": False}
    refusals = [(OK, {"Successful": [], "Failed": [failed]})]
    answer_with("sns.PublishBatch", lambda params: refusals.pop() if refusals else None)
    send("--count", 1)
    assert refusals == []
    assert cloud.take("orders").total() == 1


def test_two_runs_without_a_seed_share_no_event(cloud: Cloud) -> None:
    send("--count", 3)
    send("--count", 3)
    ids = Counter(json.loads(body)["id"] for body in cloud.take("orders"))
    assert list(ids.values()) == [1] * 6


def test_the_summary_shows_the_seed_and_the_numbers(at_work: Cloud) -> None:
    output = send(*WITH_FAULTS).stdout
    assert "seed 5" in output
    assert "orders (5 of them to be refused, 3 declined) │       30" in output
    assert "52" in output.splitlines()[-2]
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("text", "number"),
    [("30%", 60), ("0", 0), ("45", 45), ("2.5%", 5), (" 300% ", 600)],
)
def test_duplicates_are_a_share_or_a_count(text: str, number: int) -> None:
    assert parse_duplicates(text, 200) == number


@pytest.mark.parametrize("text", ["many", "", "%", "-3", "30 %%", "0x10", "1e3", "nan%", "٣"])
def test_other_duplicates_are_rejected_with_the_allowed_forms(text: str) -> None:
    result = send("--duplicates", text, ok=False)
    assert result.exit_code == 2
    assert "share of the orders, such as 30%, nor a count, such as 45" in unwrapped(result.stderr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--count", 5, "--duplicates", "51"), "more than 10 for each of 5 orders"),
        (("--count", 5, "--refusals", 6), "together at most --count, which is 5"),
        (("--count", 5, "--refusals", 3, "--declines", 3), "--refusals, --declines"),
        (("--count", 0), "greater than or equal to 1"),
        (("--conflicts", -1), "greater than or equal to 0"),
        (("--seed", "x"), "valid int"),
    ],
)
def test_invalid_numbers_are_rejected(options: tuple[object, ...], message: str) -> None:
    result = send(*options, ok=False)
    assert result.exit_code == 2
    assert message in unwrapped(result.stderr)


def test_an_unknown_queue_is_rejected_with_the_existing_ones(cloud: Cloud) -> None:
    result = send("--queue", "refunds", ok=False)
    assert result.exit_code == 1
    assert "choose one of inventory, orders" in result.stderr
    assert cloud.stock() == {}
