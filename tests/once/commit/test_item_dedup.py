"""Item dedup: the record is an attribute of the one item that the handler writes."""

import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from once.commit.item_dedup import item_record
from once.consumer import Consumer
from once.errors import RegistrationError
from once.events.identity import Key
from once.names import Record
from once.settings import Dedup
from once.testing import FakeAws, answer_lost, inject, never_sent
from once.testing.faults import Fault
from tests.once.item_orders import KEY, Orders, Placed, event, orders, running
from tests.once.support import Log, calls, facts, reasons

PLACED, CAPTURED = "once#orders#placed", "once#orders#captured"
ALONE, GROUPED = "alone", "grouped"
WRITES = {ALONE: "PutItem", GROUPED: "TransactWriteItems"}


@pytest.fixture(params=[ALONE, GROUPED])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(form: str) -> Iterator[Orders]:
    with running(group_size=1 if form == ALONE else 10) as found:
        yield found


def test_one_write_commits_state_and_record(shop: Orders, form: str) -> None:
    with calls(shop.aws.runtime.dynamodb) as made:
        assert shop.run(event("placed", "o-1")) == []
    assert [name for name, _ in made] == [WRITES[form]]
    assert shop.stored == [{"order_id": "o-1", "price": 5, "placements": 1}]
    assert shop.attributes("o-1")[PLACED]["M"][Record.OUTCOME] == {"S": "accepted"}
    assert shop.aws.items("dedup") == []


@pytest.mark.parametrize("receive_count", [1, 2])
def test_a_duplicate_is_acknowledged_and_other_content_is_a_conflict(
    shop: Orders, receive_count: int
) -> None:
    """Each event type has a record of its own on the item."""
    shop.run(event("placed", "o-1"), event("captured", "o-1"))
    before = shop.attributes("o-1")
    assert {PLACED, CAPTURED} <= before.keys()
    events = [event("placed", "o-1"), event("captured", "o-1"), event("placed", "o-1", price=6)]
    assert shop.run(*events, receive_count=receive_count) == []
    assert shop.attributes("o-1") == before
    assert shop.stored == [{"order_id": "o-1", "price": 5, "placements": 1, "captured": 5}]
    assert reasons(shop.aws) == ["key-conflict"]


def test_a_duplicate_beside_others_leaves_them_committed(shop: Orders) -> None:
    shop.run(event("placed", "o-1"))
    assert shop.run(*(event("placed", f"o-{n}") for n in range(4))) == []
    assert [item["placements"] for item in shop.stored] == [1, 1, 1, 1]


@pytest.mark.parametrize("fault", [answer_lost(), never_sent()])
def test_a_lost_answer_is_read_back_from_the_item(shop: Orders, form: str, fault: Fault) -> None:
    with inject(shop.aws.runtime.dynamodb, WRITES[form], fault) as left:
        assert shop.run(event("placed", "o-1")) == []
    assert left == []
    assert [item["placements"] for item in shop.stored] == [1]
    assert reasons(shop.aws) == []


@pytest.mark.parametrize(("age", "captured"), [(599, 5), (602, 10)])
def test_a_key_is_forgotten_after_the_window_and_the_clock_margin(
    shop: Orders, age: int, captured: int
) -> None:
    shop.run(event("placed", "o-1"), event("captured", "o-1"))
    expiry = int(shop.attributes("o-1")[CAPTURED]["M"][Record.EXPIRES_AT]["N"])
    shop.aws.time = expiry + age
    shop.run(event("captured", "o-1"))
    assert shop.stored[0]["captured"] == captured


def test_the_handlers_condition_is_told_from_the_record(shop: Orders) -> None:
    shop.run(event("placed", "o-1", price=1))
    for _ in range(2):
        assert shop.run(event("captured", "o-1")) == []
    assert shop.stored == [{"order_id": "o-1", "price": 1, "placements": 1, "refusals": 1}]
    record = shop.attributes("o-1")[CAPTURED]["M"]
    assert record[Record.OUTCOME] == {"S": "refused"}
    assert record[Record.REFUSAL] == {"S": "TooLate"}
    assert reasons(shop.aws) == []


def test_a_put_does_not_replace_an_item_that_was_not_read(shop: Orders) -> None:
    shop.aws.given("orders", {"order_id": "o-1", "price": 9})
    shop.run(event("captured", "o-1"))
    shop.run(event("placed", "o-1"))
    assert shop.stored == [{"order_id": "o-1", "price": 9, "captured": 5}]
    [dead_letter] = shop.aws.dead_letters()
    assert facts(dead_letter)["reason"] == "invalid-write"
    assert REPLACED in facts(dead_letter)["error"]


def test_a_put_of_an_item_that_was_read_keeps_the_other_records(form: str) -> None:
    consumer = orders()
    table = consumer.table("orders")

    @consumer.handles("amended", Placed, key=KEY)
    def amend(event: Placed, tx: Any) -> None:
        found = tx.get(table, {"order_id": event.order_id})
        assert found is not None
        tx.put(table, {"order_id": event.order_id, "price": event.price})

    with running(consumer, group_size=1 if form == ALONE else 10) as shop:
        shop.run(event("placed", "o-1"), event("captured", "o-1"))
        before = shop.attributes("o-1")
        shop.run(event("amended", "o-1", price=7))
        after = shop.attributes("o-1")
        assert shop.stored == [{"order_id": "o-1", "price": 7}]
        assert [after[name] for name in (PLACED, CAPTURED)] == [
            before[name] for name in (PLACED, CAPTURED)
        ]
        shop.run(event("captured", "o-1"), event("placed", "o-1"), event("amended", "o-1", price=7))
        assert shop.attributes("o-1") == after


def test_a_put_of_an_item_that_was_read_as_missing_creates_it(form: str) -> None:
    consumer = orders()
    table = consumer.table("orders")

    @consumer.handles("amended", Placed, key=KEY)
    def amend(event: Placed, tx: Any) -> None:
        assert tx.get(table, {"order_id": event.order_id}) is None
        tx.put(table, {"order_id": event.order_id, "price": event.price})

    with running(consumer, group_size=1 if form == ALONE else 10) as shop:
        for _ in range(2):
            assert shop.run(event("amended", "o-1", price=7)) == []
        assert shop.stored == [{"order_id": "o-1", "price": 7}]
        assert reasons(shop.aws) == []


def test_a_change_after_the_read_runs_the_handler_again(form: str) -> None:
    consumer = orders()
    table = consumer.table("orders")
    seen = []

    @consumer.handles("amended", Placed, key=KEY)
    def amend(event: Placed, tx: Any) -> None:
        found = tx.get(table, {"order_id": event.order_id})
        seen.append(found["price"])
        if len(seen) == 1:
            other_writer({**found, "price": 8, "once_commit": "another"})
        tx.put(table, {**found, "price": found["price"] + event.price})

    with running(consumer, group_size=1 if form == ALONE else 10) as shop:
        other_writer = partial(shop.aws.given, "orders")
        shop.run(event("placed", "o-1"))
        shop.run(event("amended", "o-1", price=1))
        assert seen == [5, 8]
        assert shop.stored[0]["price"] == 9


def test_both_spellings_of_a_key_are_one_item(shop: Orders) -> None:
    """The item's key is composed; a handler that writes another spelling is refused."""
    composed = "caf\u00e9"
    shop.run(event("placed", composed))
    shop.run(event("placed", unicodedata.normalize("NFD", composed)))
    assert [item["order_id"] for item in shop.stored] == [composed]
    assert reasons(shop.aws) == []
    shop.run(event("placed", unicodedata.normalize("NFD", "\u00e9t\u00e9")))
    assert reasons(shop.aws) == ["invalid-write"]


REPLACED = (
    "a put on orders would replace an item that the handler did not read, with the dedup records "
    "on it: use tx.update, read the item by tx.get before the put, or give the put a condition and "
    "otherwise="
)
ONE_WRITE = (
    "this consumer keeps its dedup record on the item: each event writes exactly one item, by "
    "tx.put or tx.update, and reads no other; write it, or deploy the consumer with "
    "dedup=Dedup.RECORD"
)
ITS_ITEM = (
    "the Put on orders is not of the item that holds the event's dedup record: its order_id must "
    "be the fields of key=Key.field(…), in Unicode NFC; write that item, or deploy the consumer "
    "with dedup=Dedup.RECORD"
)
WRONG: dict[str, tuple[str, Callable[[Any, Any], object]]] = {
    "no write": (ONE_WRITE, lambda table, tx: None),
    "two writes": (
        ONE_WRITE,
        lambda table, tx: [tx.put(table, {"order_id": each}) for each in ("o-1", "x")],
    ),
    "another item": (ITS_ITEM, lambda table, tx: tx.put(table, {"order_id": "x"})),
    "a deletion": (ONE_WRITE, lambda table, tx: tx.delete(table, {"order_id": "o-1"})),
    "a check": (
        ONE_WRITE,
        lambda table, tx: tx.check(
            table, {"order_id": "o-1"}, condition="attribute_exists(order_id)"
        ),
    ),
    "a read of another item": (
        ONE_WRITE,
        lambda table, tx: [
            tx.get(table, {"order_id": "x"}),
            tx.put(table, {"order_id": "o-1"}),
        ],
    ),
}


@pytest.mark.parametrize(("error", "write"), WRONG.values(), ids=WRONG)
def test_a_handler_with_another_effect_than_the_one_write_is_quarantined(
    error: str, write: Callable[[Any, Any], object]
) -> None:
    consumer = orders()
    table = consumer.table("orders")

    @consumer.handles("amended", Placed, key=KEY)
    def amend(event: Placed, tx: Any) -> None:
        write(table, tx)

    with running(consumer) as shop:
        assert shop.run(event("amended", "o-1"), event("placed", "o-2")) == []
        [dead_letter] = shop.aws.dead_letters()
        assert facts(dead_letter)["reason"] == "invalid-write"
        assert error in facts(dead_letter)["error"]
        assert [item["order_id"] for item in shop.stored] == ["o-2"]


class Line(Struct, frozen=True):
    order_id: str
    line: str


def test_an_item_of_another_key_is_refused_with_all_parts_of_the_key() -> None:
    consumer = Consumer("orders")
    table = consumer.table("orders")

    @consumer.handles("placed", Line, key=Key.field("order_id", "line"))
    def place(event: Line, tx: Any) -> None:
        tx.put(table, {"order_id": event.order_id, "line": "another"})

    with FakeAws(consumer, {"orders": ("order_id", "line")}, dedup=Dedup.ITEM) as aws:
        aws.deliver(event("placed", "o-1", line="1"), fails=True)
        [dead_letter] = aws.dead_letters()
        assert "its order_id and line must be the fields" in facts(dead_letter)["error"]


def test_a_key_that_is_no_text_is_quarantined(shop: Orders) -> None:
    assert shop.run(event("placed", 7), event("placed", "o-2")) == []  # type: ignore[arg-type]
    assert reasons(shop.aws) == ["no-key"]


def test_a_value_that_is_no_record_is_one_without_attributes() -> None:
    assert item_record({"a": {"S": "of another program"}}, "a") == {}
    assert item_record({}, "a") is None


def test_no_part_of_a_message_is_logged(shop: Orders) -> None:
    log = Log(shop.aws)
    shop.run(event("placed", "S3CRET"), event("captured", "S3CRET", amount=1))
    shop.run(event("placed", "S3CRET", price=2), event("captured", "S3CRET", amount=2))
    shop.run(event("placed", unicodedata.normalize("NFD", "S3CRÉT")), receive_count=2)
    shop.aws.given("orders", {"order_id": "S3CRET-2"})
    shop.run(event("placed", "S3CRET-2"))
    assert sorted(reasons(shop.aws)) == ["invalid-write"] * 2 + ["key-conflict"] * 2
    assert "quarantined" in log.text()
    assert "S3CR" not in log.text()


def test_mistakes_are_found_when_the_function_is_loaded() -> None:
    consumer = orders()
    consumer.handles("amended", Placed)(lambda event, tx: None)
    with running(consumer, publishes=("x",)) as shop, pytest.raises(RegistrationError) as error:
        shop.run(event("placed", "o-1"))
    for part in ("publishes events", "'amended' is not that of an item", "dedup=Dedup.RECORD"):
        assert part in str(error.value)


def test_two_consumers_keep_a_record_each_on_one_item(shop: Orders) -> None:
    other = Orders(shop.aws, orders("audit"))
    shop.run(event("placed", "o-1"), event("captured", "o-1"))
    settings = replace(shop.aws.runtime.settings, consumer="audit")
    shop.aws.runtime = replace(shop.aws.runtime, settings=settings)
    for _ in range(2):
        assert other.run(event("captured", "o-1")) == []
    assert shop.stored[0]["captured"] == 10
    assert {CAPTURED, "once#audit#captured"} <= shop.attributes("o-1").keys()
