"""The consumers refuse each malformed body and bad sample for the expected reason."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.traffic.plan import CARD, DECLINED_CARD, KINDS, malformed_bodies, plan_traffic
from functions.inventory import handler as inventory
from functions.orders import handler as orders
from once.testing import FakeAws
from tests.once.support import facts

EVENTS = Path(__file__).parents[3] / "events"
README = (EVENTS / "README.md").read_text()
REASONS = {
    "order-placed-conflict.json": "key-conflict",
    "malformed.json": "unparseable",
    "no-id.json": "no-key",
    "invalid-data.json": "invalid-data",
}
VALID = ("order-placed.json", "order-refused.json", "order-declined.json")
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
[ORDER] = plan_traffic(count=1, seed=1).orders

CONSUMERS: dict[str, Callable[[], FakeAws]] = {
    "orders": lambda: FakeAws(orders.consumer, {"orders": "order_id", "customers": "customer_id"}),
    "inventory": lambda: FakeAws(
        inventory.consumer,
        {"stock": "sku", "reservations": "order_id"},
        publishes=("stock.reserved", "stock.refused"),
    ),
}


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], FakeAws]]:
    """Start an AWS in memory for a consumer."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(CONSUMERS[name]())


@pytest.fixture(params=CONSUMERS)
def aws(request: pytest.FixtureRequest, start: Callable[[str], FakeAws]) -> FakeAws:
    return start(request.param)


@pytest.fixture
def shelf(start: Callable[[str], FakeAws]) -> FakeAws:
    """The AWS of the inventory, with the sample articles in stock."""
    aws = start("inventory")
    for sku in ("green-tea", "teapot"):
        aws.put("stock", {"sku": sku, "available": 100})
    return aws


def sample(name: str) -> str:
    return (EVENTS / name).read_text()


def reasons(aws: FakeAws) -> dict[str, str]:
    """Return the reason of each dead letter, by its body."""
    return {letter["Body"]: facts(letter)["reason"] for letter in aws.dead_letters()}


def stock(aws: FakeAws) -> dict[str, int]:
    return {item["sku"]: int(item["available"]) for item in aws.items("stock")}


def test_every_sample_is_tested_and_explained() -> None:
    files = {path.name for path in EVENTS.glob("*.json")}
    assert files == {*REASONS, *VALID}
    assert all(f"| `{name}` |" in README for name in files)


def test_valid_samples_have_the_fields_and_cards_of_sample_orders() -> None:
    data = {name: json.loads(sample(name))["data"] for name in VALID}
    for fields in data.values():
        assert fields.keys() == ORDER.event["data"].keys()
    cards = {name: fields["payment_method"] for name, fields in data.items()}
    assert cards == {**dict.fromkeys(VALID, CARD), "order-declined.json": DECLINED_CARD}


def test_bad_samples_are_dead_lettered_with_the_documented_reason(aws: FakeAws) -> None:
    aws.deliver(sample("order-placed.json"))
    assert aws.deliver(*map(sample, REASONS), fails=True) == {"batchItemFailures": []}
    assert reasons(aws) == {sample(name): reason for name, reason in REASONS.items()}
    for name, reason in REASONS.items():
        [line] = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
        assert f"`{reason}`" in line


def test_the_sample_order_takes_stock_once(shelf: FakeAws) -> None:
    shelf.deliver(sample("order-placed.json"))
    shelf.deliver(sample("order-placed.json"), sample("order-placed-conflict.json"), fails=True)
    assert stock(shelf) == {"green-tea": 98, "teapot": 99}


def test_the_sample_refusal_moves_no_stock_and_is_no_dead_letter(shelf: FakeAws) -> None:
    shelf.deliver(sample("order-refused.json"))
    [reservation] = shelf.items("reservations")
    assert (reservation["status"], reservation["out_of_stock"]) == ("refused", "moon-dust")
    assert stock(shelf) == {"green-tea": 100, "teapot": 100}
    assert reasons(shelf) == {}


def test_each_kind_of_malformed_body_has_its_reason(aws: FakeAws) -> None:
    bodies = malformed_bodies(len(KINDS), ORDER.event)
    aws.deliver(*bodies[:10], fails=True)
    aws.deliver(*bodies[10:], fails=True)
    found = reasons(aws)
    assert {kind: found.get(body) for kind, body in zip(KINDS, bodies, strict=True)} == MALFORMED
    assert aws.items("dedup") == []


def test_malformed_bodies_are_all_different() -> None:
    bodies = malformed_bodies(4 * len(KINDS), ORDER.event)
    assert len(set(bodies)) == len(bodies)


def test_five_malformed_bodies_have_four_reasons() -> None:
    assert len({MALFORMED[kind] for kind in list(KINDS)[:5]}) == 4
