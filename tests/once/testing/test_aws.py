"""AWS in memory for tests of handlers: its function's role, its faults, and no other machine."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import SkipTest

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from once import Transaction
from once.business_tables import Table
from once.cdk import ConsumerProps, Registry, TableProps
from once.errors import InvalidWrite, OutOfTime, RegistrationError, Unanswered
from once.settings import TIME_MARGIN_MS
from once.testing import (
    FakeAws,
    Fault,
    answer_lost,
    cancelled,
    cloud_event,
    inject,
    never_sent,
    refused,
)
from once.testing.pytest_plugin import _registry
from stacks.folders import ROOT
from stacks.registry import REGISTRY
from tests.accelerated import accelerated
from tests.in_memory import Start
from tests.once.effects.provider import Provider, Till, start_till
from tests.once.support import (
    COUNTERS,
    Bench,
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    facts,
    failures,
    note,
)


@pytest.fixture(scope="module", autouse=True)
def _aws_in_memory() -> Iterator[None]:
    """In place of the shared mocks and clients: FakeAws must work without them."""
    with accelerated():
        yield


def test_it_needs_no_region_or_profile_of_the_machine_and_takes_no_endpoint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:1")
    with FakeAws(consumer_of(), {"counters": "name"}) as aws:
        assert failures(aws.deliver(note())) == []


def test_each_start_is_empty_also_after_one_that_fails(start: Start) -> None:
    with pytest.raises(TypeError, match="'typo'"), FakeAws(consumer_of(), {}, typo=1):
        raise AssertionError("it started")
    with FakeAws(consumer_of(), {"counters": "name"}) as aws:
        aws.deliver(note())
        assert len(aws.items("dedup")) == 1
    assert start().items("dedup") == []


def test_a_failed_message_is_delivered_again(start: Start) -> None:
    aws = start()
    assert len(failures(aws.deliver(note(), remaining_ms=TIME_MARGIN_MS, fails=True))) == 1
    assert failures(aws.deliver()) == []
    assert len(aws.items("counters")) == 1


def test_all_dead_letters_are_taken_out_with_the_receive_count_of_their_delivery(
    start: Start,
) -> None:
    aws = start()
    aws.deliver(*["{"] * 11, receive_count=4, fails=True)
    assert [facts(letter)["receive-count"] for letter in aws.dead_letters()] == ["4"] * 11
    assert aws.dead_letters() == []


def test_a_table_has_a_partition_and_a_sort_key() -> None:
    def keep(event: Note, tx: Transaction) -> None:
        tx.update(COUNTERS, {"name": event.name, "day": "Monday"}, "ADD amount :a", {":a": 1})

    with FakeAws(consumer_of(keep), {"counters": ("name", "day")}) as aws:
        aws.deliver(note("a"), note("b"), note("a"))
        assert amounts(aws) == {"a": 2, "b": 1}


@pytest.mark.parametrize("key", [(), ("a", "b", "c"), ("a", "a")], ids=str)
def test_another_key_is_refused_with_the_remedy(key: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="of table 'counters'; name the partition key, or give"):
        FakeAws(consumer_of(), {"counters": key})


def indexing(event: Note, tx: Transaction) -> None:
    count(event, tx)
    assert [1, 2][event.amount]


def test_an_unknown_exception_of_a_handler_is_raised_after_the_batch(start: Start) -> None:
    aws = start(consumer_of(indexing))
    with pytest.raises(IndexError) as raised:
        aws.deliver(note("a", 5), note("b"))
    assert raised.traceback[-1].name == "indexing"
    assert amounts(aws) == {"b": 1}


def test_a_write_that_dynamodb_refuses_is_raised_with_what_became_of_each_message(
    start: Start,
) -> None:
    def reserve(event: Note, tx: Transaction) -> None:
        tx.update(COUNTERS, {"name": event.name}, "SET reference = :r", {":r": event.amount})

    aws = start(consumer_of(reserve))
    with pytest.raises(InvalidWrite, match="reference") as raised:
        aws.deliver(note("a"), "{")
    first, second, remedy = raised.value.__notes__
    assert first.startswith("message 1 of 2: dead-lettered as invalid-write: InvalidWrite: ")
    assert second.startswith("message 2 of 2: dead-lettered as unparseable: Unparseable: ")
    assert "fails=True" in remedy
    assert len(aws.dead_letters()) == 2


def test_an_expected_failure_that_does_not_come_is_an_error(start: Start) -> None:
    with pytest.raises(AssertionError, match="no message failed: take fails=True out"):
        start().deliver(note(), fails=True)


ENDS = [KeyboardInterrupt(), SkipTest("no"), BaseExceptionGroup("a task's", [KeyboardInterrupt()])]
ENDS += [kind.Exception("by the user") for kind in (pytest.fail, pytest.skip, pytest.exit)]


@pytest.mark.parametrize("place", ["model", "handler", "effect"])
@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
def test_an_exception_that_ends_a_test_ends_the_delivery_at_once(
    start: Start, provider: Provider, error: BaseException, place: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    model = type("Failing", (Note,), {"__post_init__": fail}) if place == "model" else Note
    provider.plan = [error]
    of_effect = place == "effect"
    aws = start_till(start, provider).aws if of_effect else start(consumer_of(fail, model=model))
    with pytest.raises(type(error)) as ended:
        aws.deliver(note(), receive_count=5, fails=True)
    assert ended.value is error
    assert aws.dead_letters() == []


def test_an_effect_without_an_outcome_is_raised(till: Till) -> None:
    till.provider.plan = [TimeoutError(), TimeoutError(), TimeoutError()]
    with pytest.raises(Unanswered, match="brought no outcome") as raised:
        till.aws.deliver(note())
    assert "returned to the queue" in raised.value.__notes__[0]


def test_an_exception_after_which_the_message_commits_is_not_raised(start: Start) -> None:
    def follow(event: Note, tx: Transaction) -> None:
        if event.amount == 2 and tx.get(COUNTERS, {"name": event.name}) is None:
            raise LookupError
        count(event, tx)

    aws = start(consumer_of(follow))
    assert failures(aws.deliver(note("a", 1), note("a", 2))) == []
    assert amounts(aws) == {"a": 3}


SEATS = """
from msgspec import Struct
from once import Consumer, Transaction
consumer = Consumer("seats")
SEATS = consumer.table("seats")
class Booked(Struct):
    show: str
@consumer.handles("seat.booked", Booked)
def book(event: Booked, tx: Transaction) -> None:
    tx.put(SEATS, {"show": event.show, "day": "Monday"})
    tx.publish("seat.taken", {"show": event.show})
"""
LINE = ConsumerProps(
    "seats",
    events=("seat.booked",),
    tables=(TableProps("seats", ("show", "day")),),
    publishes=("seat.taken",),
    timeout_seconds=TIME_MARGIN_MS // 1000 + 1,
)
OFFICE = ConsumerProps("office", external=("seat.asked",), publishes=("seat.booked",))


def registry_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: ConsumerProps = LINE
) -> Registry:
    functions = folder / f"functions_{folder.name}"
    (functions / "seats").mkdir(parents=True)
    (functions / "seats" / "handler.py").write_text(SEATS)
    monkeypatch.syspath_prepend(str(folder))
    return Registry((line, OFFICE), folder / "lines.py", functions, folder / "deployed.json")


def test_of_a_registry_everything_is_as_the_line_declares_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booked = cloud_event("seat.booked", {"show": "Hamlet"})
    with FakeAws.of(registry_in(tmp_path, monkeypatch), "seats") as aws:
        aws.deliver(booked, booked)
        assert aws.items("seats") == [{"show": "Hamlet", "day": "Monday"}]
        assert [event["type"] for event in aws.published()] == ["seat.taken"]
        timeout = LINE.timeout_seconds * 1000
        with pytest.raises(OutOfTime):  # the margin is a second less than the line's timeout
            aws.deliver(cloud_event("seat.booked", {"show": "Lear"}), remaining_ms=timeout - 1001)


def test_of_a_registry_a_line_that_does_not_fit_its_handler_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = replace(LINE, events=("seat.sold",), publishes=())
    registry = registry_in(tmp_path, monkeypatch, line)
    with (
        FakeAws.of(registry, "seats") as aws,
        pytest.raises(RegistrationError, match=r"handles 'seat.booked', which its queue never"),
    ):
        aws.deliver()
    with pytest.raises(LookupError, match=r"no line 'halls'; it has seats, office"):
        FakeAws.of(registry, "halls")
    with pytest.raises(LookupError, match=r"no folder of sys.path holds .*office/handler.py"):
        FakeAws.of(replace(registry, functions=Path("/nowhere")), "office")


# Deliveries, and what a test says of the tables.


def twice(**options: Any) -> FakeAws:
    def add(event: Note, tx: Transaction) -> None:
        boto3.resource("dynamodb", "us-east-1").Table("counters").update_item(
            Key={"name": "past"},
            UpdateExpression="ADD amount :one",
            ExpressionAttributeValues={":one": 1},
        )
        count(event, tx)

    return FakeAws(consumer_of(add), {"counters": "name"}, grants=("UpdateItem",), **options)


def test_each_message_is_delivered_twice_and_a_second_change_is_an_error() -> None:
    with twice() as aws, pytest.raises(AssertionError, match="second delivery changed the table"):
        aws.deliver(note())
    with twice(deliveries=1) as aws:
        aws.deliver(note())
        assert aws.then("counters", "past") == {"name": "past", "amount": 1}


def test_a_message_that_fails_is_not_delivered_twice(start: Start) -> None:
    aws = start(deliveries=2)
    aws.deliver(note(), "{", fails=True)
    assert len(aws.dead_letters()) == 1


def test_an_item_is_found_by_its_key() -> None:
    table = Table[Any]("days")
    with FakeAws(consumer_of(), {"counters": "name", "days": ("name", "day")}) as aws:
        aws.given(table, monday := {"name": "a", "day": "Monday"}, {"name": "b", "day": "Monday"})
        assert aws.then(table, ("a", "Monday")) == aws.then("days", monday) == monday
        assert aws.then(table, ("a", "Tuesday")) is None
        aws.deliver(note("c"))
        assert aws.then(COUNTERS, "c") == {"name": "c", "amount": 1}


def test_planned_faults_meet_the_next_delivery(start: Start) -> None:
    aws = start(deliveries=2)
    aws.fails_at("TransactWriteItems")
    with calls(aws.runtime.dynamodb) as made:
        aws.deliver(note("a"))
    assert len(made) > 2  # the record is read back
    aws.fails_at("TransactWriteItems", REFUSED)
    aws.deliver(note("b"), fails=True)
    assert aws.then("counters", "b") is None
    aws.fails_at("TransactWriteItems", None, answer_lost())
    with pytest.raises(AssertionError, match="too few calls of TransactWriteItems"):
        aws.deliver(note("c"))
    with pytest.raises(ValueError, match="neither DynamoDB nor SQS has the operation 'Write'"):
        aws.fails_at("Write")
    assert amounts(aws)["a"] == amounts(aws)["c"] == 1


# Time, and due events.


LATER: dict[str, Any] = {"publishes": ("noted", "told"), "publishes_later": ("noted", "told")}
NOON = 1_800_014_400


def again(event: Note, tx: Transaction) -> None:
    """Count, until there are three; tell another consumer a day after each."""
    count(event, tx)
    if event.amount < 3:
        tx.publish("noted", Note(event.name, event.amount + 1), after=timedelta(hours=event.amount))
    tx.publish("told", event, after=timedelta(days=1))
    tx.publish("told", event, at=datetime(2020, 1, 1, tzinfo=UTC))


def test_due_events_are_delivered_in_order_at_their_times_as_time_passes(start: Start) -> None:
    times: list[float | None] = []

    def handle(event: Note, tx: Transaction) -> None:
        times.append(aws.time)
        again(event, tx)

    aws = start(consumer_of(handle), deliveries=2, **LATER)
    for aws.time, event in ((NOON, note("a", 1)), (NOON + 60, note("b", 2))):
        aws.deliver(event)
    assert aws.advance(timedelta(minutes=58)) == []
    due = aws.advance(timedelta(minutes=62))
    assert [(event["type"], event["data"]) for event in due] == [
        ("noted", {"name": "a", "amount": 2}), ("noted", {"name": "b", "amount": 3})
    ]  # fmt: skip
    assert aws.time == NOON + 7260
    assert amounts(aws) == {"a": 3, "b": 5}
    due = aws.advance(timedelta(days=1))
    assert [(e["type"], e["data"]["amount"]) for e in due] == [
        ("noted", 3), *[("told", n) for n in (1, 2, 2, 3)]
    ]  # fmt: skip
    assert aws.then(COUNTERS, "a") == {"name": "a", "amount": 6}
    assert {*times} == {NOON, NOON + 60, NOON + 3600, NOON + 7260, NOON + 10800}
    assert aws.runtime.settings.sources == {}


def test_a_due_event_that_fails_is_raised_at_its_time(start: Start) -> None:
    def fail(event: Note, tx: Transaction) -> None:
        if event.amount > 1:
            raise ValueError("bad luck")
        again(event, tx)

    aws = start(consumer_of(fail), **LATER)
    aws.deliver(note())
    with pytest.raises(ValueError, match="bad luck"):
        aws.advance(timedelta(hours=2))
    assert aws.advance(timedelta(hours=2)) == []


def test_the_plugin_imports_nothing_that_takes_time() -> None:
    code = (
        "import once.testing.pytest_plugin, sys;"
        "print([m for m in ('moto', 'boto3', 'once.testing.aws') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_the_fixture_finds_the_registry_of_the_project(
    once_aws: Callable[..., FakeAws], tmp_path: Path
) -> None:
    assert _registry(ROOT) is REGISTRY
    aws = once_aws("inventory")
    aws.given("stock", {"sku": "tea", "available": 1})
    assert aws.then("stock", "tea") == {"sku": "tea", "available": 1}
    with pytest.raises(LookupError, match="names no registry: write registry ="):
        _registry(tmp_path)


# A handler that calls DynamoDB itself, which the role of its function denies.


KEY = {"name": {"S": "own"}}
ITEM = {"TableName": "counters", "Item": KEY}
EARLIER = boto3.client("dynamodb", "us-east-1")


def put_by_resource(client: Any) -> None:
    boto3.resource("dynamodb", "us-east-1").Table("counters").put_item(Item={"name": "own"})


Call = Callable[[Any], object]
DENIED: dict[str, Call] = {
    "PutItem": lambda client: client.put_item(**ITEM),
    "TransactWriteItems": lambda client: client.transact_write_items(TransactItems=[{"Put": ITEM}]),
    "Scan": lambda client: client.scan(TableName="counters"),
}


def calling(call: Call, client: Any = None) -> Any:
    def handle(event: Note, tx: Transaction) -> None:
        call(client or boto3.client("dynamodb", "us-east-1"))
        count(event, tx)

    return consumer_of(handle)


@pytest.mark.parametrize(
    ("operation", "call", "client"),
    [
        ("TransactWriteItems", DENIED["TransactWriteItems"], None),
        ("Scan", DENIED["Scan"], None),
        pytest.param("PutItem", DENIED["PutItem"], EARLIER, id="a client of the module"),
        pytest.param("PutItem", put_by_resource, None, id="a resource"),
    ],
)
def test_a_call_by_the_handler_is_denied(operation: str, call: Call, client: Any) -> None:
    with FakeAws(calling(call, client), {"counters": "name"}) as aws:
        aws.given("counters", {"name": "there"})
        with pytest.raises(ClientError, match=f"not call dynamodb:{operation} itself; read with"):
            aws.deliver(note())
        assert aws.items("counters") == [{"name": "there"}]


@pytest.mark.parametrize(
    ("call", "grants"),
    [
        pytest.param(lambda c: c.get_item(TableName="counters", Key=KEY), (), id="a read"),
        pytest.param(DENIED["Scan"], ("Scan",), id="a granted operation"),
        pytest.param(lambda _: boto3.client("sqs", "us-east-1").list_queues(), (), id="SQS"),
    ],
)
def test_another_call_is_allowed_and_every_one_between_two_deliveries(
    call: Call, grants: tuple[str, ...]
) -> None:
    with FakeAws(calling(call), {"counters": "name"}, grants=grants) as aws:
        assert failures(aws.deliver(note())) == []
        client = boto3.client("dynamodb", "us-east-1")
        client.put_item(**ITEM)
        assert len(client.scan(TableName="counters")["Items"]) == 2


def test_an_entry_of_ones_own_runs_and_must_return_the_answer_of_the_consumer() -> None:
    consumer, seen = consumer_of(), []

    def lambda_handler(event: Any, context: Any) -> Any:
        seen.append(context.function_name)
        return consumer.lambda_handler(event, context)

    with FakeAws(consumer, {"counters": "name"}) as aws:
        aws.deliver(note("a"), through=lambda_handler)
        assert (len(seen), len(aws.items("counters"))) == (2, 1)
        with pytest.raises(AssertionError, match=r"return what consumer\.lambda_handler returns"):
            aws.deliver(note("b"), through=lambda event, context: None)  # type: ignore[arg-type, return-value]


# Injected faults.


REFUSED = refused("AccessDeniedException")


def put(bench: Bench) -> None:
    bench.client.put_item(TableName="counters", Item={"name": {"S": "a"}})


@pytest.mark.parametrize(
    ("fault", "items"),
    [
        pytest.param(REFUSED, 0, id="refused"),
        pytest.param(refused("InternalServerError", status=500), 0, id="server error"),
        pytest.param(cancelled("None"), 0, id="cancelled"),
        pytest.param(never_sent(), 0, id="never sent"),
        pytest.param(answer_lost(), 1, id="answer lost"),
    ],
)
def test_a_call_is_done_only_if_its_answer_is_lost(bench: Bench, fault: Fault, items: int) -> None:
    error = ReadTimeoutError if fault.error is None else ClientError
    with inject(bench.client, "PutItem", fault) as left, pytest.raises(error):
        put(bench)
    assert left == []
    assert len(bench.aws.items("counters")) == items
