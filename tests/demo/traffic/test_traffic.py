"""Sample traffic: its plan and waves, the reasons of its bad bodies, and how it is sent."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo.traffic.plan import (
    BATCH_SIZE,
    KINDS,
    TrafficPlan,
    first_wave,
    late_wave,
    malformed_bodies,
    plan_traffic,
)
from demo.traffic.publisher import COPIES, DISTINCT, send_batch, send_samples
from functions.inventory import handler as inventory
from functions.orders import handler as orders
from once.ops.errors import OpsError
from once.testing import FakeAws
from tests.once.support import facts

MAX_BYTES = 256 * 1024
ALL_KINDS = {"duplicates": 9, "conflicts": 3, "malformed": 5, "refusals": 2, "declines": 2}

quick = settings(deadline=None, database=None, max_examples=60)


def traffic(*, count: int = 20, seed: int = 1, **numbers: int) -> TrafficPlan:
    return plan_traffic(count=count, seed=seed, **numbers)


def test_the_same_seed_plans_and_sends_the_same_messages_in_the_same_order() -> None:
    one, other = (traffic(**ALL_KINDS) for _ in range(2))
    assert one == other
    assert list(first_wave(one)) == list(first_wave(other))
    assert late_wave(one) == late_wave(other)


@st.composite
def plans(draw: st.DrawFn) -> TrafficPlan:
    count = draw(st.integers(1, 40))
    refusals = draw(st.integers(0, count))
    return plan_traffic(
        count=count,
        duplicates=draw(st.integers(0, 10 * count)),
        conflicts=draw(st.integers(0, 30)),
        malformed=draw(st.integers(0, 40)),
        refusals=refusals,
        declines=draw(st.integers(0, count - refusals)),
        seed=draw(st.integers(0, 2**64)),
    )


@quick
@given(plans())
def test_waves_contain_exactly_the_messages_of_the_plan_within_the_limits_of_sns_and_sqs(
    planned: TrafficPlan,
) -> None:
    waves = [list(first_wave(planned)), late_wave(planned)]
    early = [*planned.orders, *planned.at_once, *planned.parallel]
    first = Counter(order.body for order in early) + Counter(planned.malformed)
    late = Counter(order.body for order in planned.late)
    late += Counter(order.conflicting().body for order in planned.conflicts)
    assert [Counter(chain.from_iterable(wave)) for wave in waves] == [first, late]
    assert first.total() + late.total() == planned.messages
    for batch in chain(*waves):
        assert 1 <= len(batch) <= BATCH_SIZE
        assert sum(len(body.encode()) for body in batch) < MAX_BYTES


EVENTS = Path(__file__).parents[3] / "events"
README = (EVENTS / "README.md").read_text()
REASONS = {
    "order-placed-conflict.json": "key-conflict",
    "malformed.json": "unparseable",
    "no-id.json": "no-key",
    "invalid-data.json": "invalid-data",
}
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
        aws.given("stock", {"sku": sku, "available": 100})
    return aws


def sample(name: str) -> str:
    return (EVENTS / name).read_text()


def reasons(aws: FakeAws) -> dict[str, str]:
    """Return the reason of each dead letter, by its body."""
    return {letter["Body"]: facts(letter)["reason"] for letter in aws.dead_letters()}


def stock(aws: FakeAws) -> dict[str, int]:
    return {item["sku"]: int(item["available"]) for item in aws.items("stock")}


def test_bad_samples_are_dead_lettered_with_the_documented_reason(aws: FakeAws) -> None:
    aws.deliver(sample("order-placed.json"))
    assert aws.deliver(*map(sample, REASONS), fails=True) == {"batchItemFailures": []}
    assert reasons(aws) == {sample(name): reason for name, reason in REASONS.items()}
    for name, reason in REASONS.items():
        [line] = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
        assert f"`{reason}`" in line


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


# Sending: a message that is not accepted fails it.


def test_a_message_that_is_not_accepted_fails_with_the_reason() -> None:
    refused = {"Id": "1", "Code": "InvalidParameter", "Message": "too long", "SenderFault": True}
    answer = {"Successful": [{"Id": "0"}], "Failed": [refused]}
    message = r"1 messages were not accepted \(InvalidParameter too long\)"
    with pytest.raises(OpsError, match=message):
        send_batch(lambda _: answer, [{}, {}])


SAMPLE = {
    "specversion": "1.0",
    "id": "sample-1",
    "source": "/samples",
    "type": "refund.requested",
    "data": {"refund_id": "refund", "amount": 2},
}


def deployed_consumer(name: str, *types: str) -> Any:
    return SimpleNamespace(name=name, identity=name, ingress_types=types, item_table=None)


@pytest.fixture
def deployment() -> Any:
    consumers = [
        deployed_consumer("orders", "order.placed"),
        deployed_consumer("refunds", "refund.requested"),
    ]
    return SimpleNamespace(
        consumers={each.name: each for each in consumers},
        is_ordered=lambda _: False,
        takers=lambda _: [],
        group_field=lambda _: None,
        ingress_topic=lambda _: "topic",
    )


def test_a_further_consumers_sample_is_sent_as_distinct_events_and_duplicates(
    deployment: Any, tmp_path: Path
) -> None:
    (tmp_path / "refund-requested.json").write_text(json.dumps(SAMPLE))
    (tmp_path / "malformed.json").write_text('{"type": "refund.requested", "data": 1}')
    calls: list[dict[str, Any]] = []

    def publish_batch(PublishBatchRequestEntries: list[dict[str, Any]], **_: Any) -> Any:  # noqa: N803
        calls.extend(PublishBatchRequestEntries)
        return {"Successful": PublishBatchRequestEntries}

    sns: Any = SimpleNamespace(publish_batch=publish_batch)
    [sample] = send_samples(sns, deployment, 7, tmp_path)
    assert sample == {"type": "refund.requested", "consumers": ["refunds"], "distinct": DISTINCT}
    assert len(calls) == DISTINCT * COPIES
    types = {call["MessageAttributes"]["type"]["StringValue"] for call in calls}
    assert types == {"refund.requested"}
    events = [json.loads(call["Message"]) for call in calls]
    assert len({event["id"] for event in events}) == DISTINCT
    assert len({event["data"]["refund_id"] for event in events}) == DISTINCT
    assert {event["data"]["amount"] for event in events} == {2}
