"""Sample events and malformed bodies, as the two consumers themselves judge them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from demo.traffic.malformed_bodies import KINDS, malformed_bodies
from demo.traffic.sample_order import CARD, DECLINED_CARD
from demo.traffic.traffic_plan import plan_traffic
from functions.inventory import handler as inventory
from functions.orders import handler as orders
from once.schema import DeadLetter
from once.testing import FakeAws

EVENTS = Path(__file__).parents[3] / "events"
REASONS = {
    "order-placed-conflict.json": "key-conflict",
    "malformed.json": "unparseable",
    "no-id.json": "no-key",
    "invalid-data.json": "invalid-data",
}
SOUND = ("order-placed.json", "order-refused.json", "order-declined.json")
MALFORMED = {
    "not-json": "unparseable",
    "no-id": "no-key",
    "array": "invalid-event",
    "quantity-as-text": "invalid-data",
    "nested": "unparseable",
    "key-twice": "unparseable",
    "null-id": "no-key",
    "other-version": "invalid-event",
    "no-lines": "invalid-data",
    "not-a-number": "unparseable",
    "number-as-id": "invalid-event",
    "quantity-of-zero": "invalid-data",
    "lone-surrogate": "unparseable",
    "data-as-text": "invalid-data",
    "cut-off": "unparseable",
}


@pytest.fixture(params=["orders", "inventory"])
def aws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    """AWS in memory for each consumer, with the sample articles on the shelf."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with ExitStack() as stack:
        if request.param == "orders":
            tables = {"orders": "order_id", "customers": "customer_id"}
            yield stack.enter_context(FakeAws(orders.consumer, tables))
        else:
            yield stack.enter_context(_inventory())


@pytest.fixture
def inventory_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with _inventory() as aws:
        for sku in ("green-tea", "teapot"):
            aws.put("stock", {"sku": sku, "available": 100})
        yield aws


def _inventory() -> FakeAws:
    tables = {"stock": "sku", "reservations": "order_id"}
    publishes = ("stock.reserved", "stock.refused")
    return FakeAws(inventory.consumer, tables, publishes=publishes)


def sample(name: str) -> str:
    return (EVENTS / name).read_text()


def reasons(aws: FakeAws) -> dict[str, str]:
    """The reason of each dead letter, by its body."""
    return {letter["Body"]: _reason(letter) for letter in aws.dead_letters()}


def _reason(letter: Mapping[str, Any]) -> str:
    reason: str = letter["MessageAttributes"][DeadLetter.REASON]["StringValue"]
    return reason


def stock(aws: FakeAws) -> dict[str, int]:
    return {item["sku"]: int(item["available"]) for item in aws.items("stock")}


def test_every_sample_is_tested_and_explained() -> None:
    files = {path.name for path in EVENTS.glob("*.json")}
    assert files == {*REASONS, *SOUND}
    readme = (EVENTS / "README.md").read_text()
    assert all(f"| `{name}` |" in readme for name in files)


def test_sound_samples_have_the_fields_and_the_cards_of_orders_that_are_sent() -> None:
    data = {name: json.loads(sample(name))["data"] for name in SOUND}
    for fields in data.values():
        assert fields.keys() == plan_of_one_event()["data"].keys()
    cards = {name: fields["payment_method"] for name, fields in data.items()}
    assert cards == {**dict.fromkeys(SOUND, CARD), "order-declined.json": DECLINED_CARD}


def test_bad_samples_are_dead_lettered_with_the_reason_that_the_readme_names(aws: FakeAws) -> None:
    readme = (EVENTS / "README.md").read_text().splitlines()
    aws.deliver(sample("order-placed.json"))
    assert aws.deliver(*map(sample, REASONS)) == {"batchItemFailures": []}
    assert reasons(aws) == {sample(name): reason for name, reason in REASONS.items()}
    for name, reason in REASONS.items():
        [line] = [line for line in readme if line.startswith(f"| `{name}` |")]
        assert f"`{reason}`" in line


def test_sample_order_takes_stock_once_however_often_it_is_sent(inventory_aws: FakeAws) -> None:
    inventory_aws.deliver(sample("order-placed.json"))
    inventory_aws.deliver(sample("order-placed.json"), sample("order-placed-conflict.json"))
    assert stock(inventory_aws) == {"green-tea": 98, "teapot": 99}


def test_sample_refusal_moves_no_stock_and_is_no_dead_letter(inventory_aws: FakeAws) -> None:
    inventory_aws.deliver(sample("order-refused.json"))
    [reservation] = inventory_aws.items("reservations")
    assert reservation["status"] == "refused"
    assert reservation["out_of_stock"] == "moon-dust"
    assert stock(inventory_aws) == {"green-tea": 100, "teapot": 100}
    assert reasons(inventory_aws) == {}


def test_each_kind_of_malformed_body_is_refused_for_its_reason(aws: FakeAws) -> None:
    bodies = malformed_bodies(len(KINDS), plan_of_one_event())
    aws.deliver(*bodies[:10])
    aws.deliver(*bodies[10:])
    found = reasons(aws)
    assert {kind: found.get(body) for kind, body in zip(KINDS, bodies, strict=True)} == MALFORMED
    assert aws.items("dedup") == []


def test_malformed_bodies_are_all_different() -> None:
    bodies = malformed_bodies(4 * len(KINDS), plan_of_one_event())
    assert set(Counter(bodies).values()) == {1}


def test_a_few_malformed_bodies_already_show_several_reasons() -> None:
    assert len({MALFORMED[kind] for kind in list(KINDS)[:5]}) == 4


def plan_of_one_event() -> dict[str, Any]:
    nothing = {"duplicates": 0, "conflicts": 0, "malformed": 0, "refusals": 0, "declines": 0}
    [order] = plan_traffic(count=1, **nothing, seed=1).orders
    return order.event
