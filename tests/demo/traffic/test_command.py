"""`send`, from the command line to the queues."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from demo.__main__ import app
from demo.traffic.options import parse_duplicates
from demo.traffic.sample_order import CARD, DECLINED_CARD
from demo.traffic.traffic_plan import INITIAL_STOCK, plan_traffic
from tests.ops.support import OK, Cloud, answer_with, run

FAULTS = ("--duplicates=50%", "--conflicts=3", "--malformed=4", "--refusals=5", "--declines=3")


def run_demo(*arguments: object) -> Result:
    return run(*arguments, app=app)


def sent_with_faults(cloud: Cloud, folder: Path, *options: object) -> dict[str, Any]:
    file = folder / "reports" / "manifest.json"
    result = run_demo("send", "--count", 30, *FAULTS, "--seed", 5, "--manifest", file, *options)
    assert result.exit_code == 0, result.output
    manifest: dict[str, Any] = json.loads(file.read_text())
    return manifest


def event_ids(bodies: Counter[str], malformed: list[str]) -> Counter[tuple[str, str]]:
    """How often each event was delivered, by id and by what it says; without the malformed."""
    sound = {body: n for body, n in bodies.items() if digest(body) not in malformed}
    return Counter({(json.loads(body)["id"], body): n for body, n in sound.items()})


def digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


@pytest.mark.parametrize("consumer", ["orders", "inventory"])
def test_manifest_says_what_each_consumer_was_sent(
    at_work: Cloud, tmp_path: Path, consumer: str
) -> None:
    manifest = sent_with_faults(at_work, tmp_path)
    bodies = at_work.delivered(consumer)
    assert manifest["sent"] == bodies.total() == 30 + 15 + 3 + 4
    hashes = Counter({digest(body): number for body, number in bodies.items()})
    assert {hashes[malformed] for malformed in manifest["malformed"]} == {1}
    events = event_ids(bodies, manifest["malformed"])
    for order in manifest["orders"]:
        times = [n for (event_id, _), n in events.items() if event_id == order["event_id"]]
        assert max(times) == order["sends"]
        assert sum(times) == order["sends"] + order["conflicts"]


def test_manifest_adds_up(at_work: Cloud, tmp_path: Path) -> None:
    manifest = sent_with_faults(at_work, tmp_path)
    orders = manifest["orders"]
    assert (len(orders), len(manifest["malformed"])) == (30, 4)
    assert sum(order["sends"] for order in orders) == 45
    assert sum(order["conflicts"] for order in orders) == 3
    assert sum(order["refused"] for order in orders) == 5
    assert sum(order["declined"] for order in orders) == 3
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


def test_late_messages_wait_until_the_others_are_worked_off(at_work: Cloud, tmp_path: Path) -> None:
    sent_with_faults(at_work, tmp_path)
    numbers = {"duplicates": 15, "conflicts": 3, "malformed": 4, "refusals": 5, "declines": 3}
    planned = plan_traffic(count=30, **numbers, seed=5)
    late = Counter(order.body for order in planned.late)
    late += Counter(order.conflicting().body for order in planned.conflicts)
    assert at_work.worked_off["orders"].total() == planned.messages - late.total()
    assert at_work.take("orders") == late


def test_articles_are_on_the_shelf_before_anything_is_sent(cloud: Cloud) -> None:
    found: list[dict[str, int]] = []

    def look(params: Any) -> None:
        found.append(cloud.stock())

    answer_with("sns.PublishBatch", look)
    faults = ("--refusals", 1, "--declines", 1)
    assert run_demo("send", "--count", 4, *faults, "--seed", 5).exit_code == 0
    numbers = {"duplicates": 0, "conflicts": 0, "malformed": 0, "refusals": 1, "declines": 1}
    assert found == [plan_traffic(count=4, **numbers, seed=5).stock]


def test_article_that_is_on_the_shelf_keeps_its_stock(cloud: Cloud) -> None:
    item = {"sku": {"S": "own-5-1"}, "available": {"N": "7"}}
    cloud.dynamodb.put_item(TableName="physical-stock", Item=item)
    assert run_demo("send", "--count", 2, "--seed", 5).exit_code == 0
    assert cloud.stock()["own-5-1"] == 7
    assert cloud.stock()["own-5-2"] == INITIAL_STOCK


def test_no_stock_writes_none(cloud: Cloud) -> None:
    assert run_demo("send", "--count", 2, "--no-stock").exit_code == 0
    assert cloud.stock() == {}
    assert cloud.take("orders").total() == 2


def test_queue_option_reaches_that_consumer_alone(at_work: Cloud, tmp_path: Path) -> None:
    manifest = sent_with_faults(at_work, tmp_path, "--queue", "inventory")
    assert at_work.delivered("inventory").total() == manifest["sent"]
    assert at_work.delivered("orders").total() == 0
    assert manifest["consumers"] == ["inventory"]


def test_message_that_sns_did_not_accept_is_sent_again(cloud: Cloud) -> None:
    failed = {"Id": "0", "Code": "Throttled", "SenderFault": False}
    refusals = [(OK, {"Successful": [], "Failed": [failed]})]
    answer_with("sns.PublishBatch", lambda params: refusals.pop() if refusals else None)
    assert run_demo("send", "--count", 1).exit_code == 0
    assert refusals == []
    assert cloud.take("orders").total() == 1


def test_two_runs_without_a_seed_share_no_event(cloud: Cloud) -> None:
    assert run_demo("send", "--count", 3).exit_code == 0
    assert run_demo("send", "--count", 3).exit_code == 0
    ids = Counter(json.loads(body)["id"] for body in cloud.take("orders"))
    assert list(ids.values()) == [1] * 6


def test_summary_names_the_seed_and_the_numbers(at_work: Cloud) -> None:
    output = run_demo("send", "--count", 30, *FAULTS, "--seed", 5).stdout
    assert "seed 5" in output
    assert "orders (5 of them to be refused, 3 declined) │       30" in output
    assert "52" in output.splitlines()[-2]
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("text", "number"), [("30%", 60), ("0", 0), ("45", 45), ("2.5%", 5), (" 300% ", 600)]
)
def test_duplicates_are_a_share_or_a_count(text: str, number: int) -> None:
    assert parse_duplicates(text, 200) == number


@pytest.mark.parametrize("text", ["many", "", "%", "-3", "30 %%", "0x10", "1e3", "nan%", "٣"])
def test_other_duplicates_are_refused_with_the_forms_allowed(text: str) -> None:
    result = run_demo("send", "--duplicates", text)
    assert result.exit_code == 2
    assert "share of the orders, such as 30%, nor a count, such as 45" in unwrapped(result.stderr)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--count", 5, "--duplicates", "51"), "more than 10 for each of 5 orders"),
        (("--count", 5, "--refusals", 6), "together at most --count, which is 5"),
        (("--count", 5, "--refusals", 3, "--declines", 3), "--refusals, --declines"),
        (("--count", 0), "greater than or equal to 1"),
        (("--conflicts", -1), "greater than or equal to 0"),
        (("--seed", "x"), "valid int"),
    ],
)
def test_numbers_that_cannot_be_are_refused(options: tuple[object, ...], said: str) -> None:
    result = run_demo("send", *options)
    assert result.exit_code == 2
    assert said in unwrapped(result.stderr)


def test_unknown_queue_is_answered_with_those_there_are(cloud: Cloud) -> None:
    result = run_demo("send", "--queue", "refunds")
    assert result.exit_code == 1
    assert "choose one of inventory, orders" in result.stderr
    assert cloud.stock() == {}


def unwrapped(text: str) -> str:
    """An error's text without the frame that is drawn around it."""
    return " ".join(text.replace("│", " ").split())
