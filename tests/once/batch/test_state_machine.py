"""Several tasks settled together: each comes to its own result."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.batch._message_state import Finished, MessageState
from once.batch._metrics import BatchMetrics
from once.composition import compose
from once.consumer import Consumer
from once.deadline import Deadline
from once.disposition import Disposition, MessageResult
from once.errors import InvalidWrite, KeyConflict, OnceError, Unexpected
from once.handlers.transaction import Identity, Transaction
from once.intake.reader import DecodedEvent, Delivery
from once.testing import FakeAws, cancelled, inject
from tests.in_memory import Start
from tests.once.support import (
    COUNTERS,
    Note,
    SoldOut,
    amounts,
    calls,
    consumer_of,
    count,
    event_of,
    record,
)

Settle = Callable[..., list[MessageResult]]


def handle(event: Note, tx: Transaction) -> None:
    """Does what the first word of the counter's name says."""
    match event.name.split()[0]:
        case "fail":
            raise ValueError
        case "refuse":
            raise SoldOut
        case "unsendable":
            tx.put(COUNTERS, {"name": event.name, "inner": {1: 2}})
        case "guilty":
            tx.update(COUNTERS, {"name": event.name}, "NO EXPRESSION")
        case "sold":
            condition: Any = {"condition": "attribute_exists(amount)", "otherwise": SoldOut()}
            tx.put(COUNTERS, {"name": event.name, "amount": 1}, **condition)
        case _:
            count(event, tx)


def answer(event: Note, refusal: SoldOut, tx: Transaction) -> None:
    tx.put(COUNTERS, {"name": f"refused {event.name}", "amount": 0})


@pytest.fixture
def consumer() -> Consumer:
    consumer = consumer_of(handle)
    consumer.rejects(SoldOut)(answer)
    return consumer


@pytest.fixture
def aws(start: Start, consumer: Consumer) -> FakeAws:
    return start(consumer)


@pytest.fixture
def settle(aws: FakeAws, consumer: Consumer) -> Settle:
    runtime = aws.runtime
    deadline = Deadline(lambda: 30_000, 0, runtime.sleep)

    def delivery(name: str) -> Delivery:
        delivery = Delivery(SQSRecord(record("", name)))
        delivery.pk = f"notes#{name.removesuffix('!')}"
        identity = Identity(delivery.pk, name)
        handler = consumer.handlers["noted"]
        delivery.decoded = DecodedEvent(event_of(), identity, handler, Note(name))
        return delivery

    def settle(*names: str) -> list[MessageResult]:
        processor = compose(
            replace(runtime, settings=replace(runtime.settings, group_size=len(names))),
            handlers=consumer.handlers,
            rejections=consumer.rejections,
            effects=consumer.effects,
            completions=consumer.completions,
        )
        metrics = BatchMetrics(runtime.metrics, runtime.clock)
        messages = [MessageState(delivery(name), deadline, metrics) for name in names]
        finished = processor._groups.settle(messages, deadline, metrics)
        assert {*finished} == {message.phase for message in messages}
        return [m.phase.result for m in messages if isinstance(m.phase, Finished)]

    return settle


def test_nothing_to_settle_is_settled(settle: Settle) -> None:
    assert settle() == []


def test_disjoint_tasks_are_one_request(settle: Settle, aws: FakeAws) -> None:
    with calls(aws.runtime.dynamodb) as made:
        assert settle("a", "b", "c") == [Disposition.COMMITTED] * 3
    assert len(made) == 1
    assert amounts(aws) == {"a": 1, "b": 1, "c": 1}


def test_each_task_has_its_own_result_in_its_own_place(settle: Settle, aws: FakeAws) -> None:
    settle("duplicate", "conflict")
    names = ("a", "duplicate", "fail", "conflict!", "guilty", "refuse", "sold", "unsendable", "b")
    results = settle(*names)
    found = [r if isinstance(r, Disposition) else type(r) for r in results]
    assert found == [
        Disposition.COMMITTED,
        Disposition.DUPLICATE,
        Unexpected,
        KeyConflict,
        InvalidWrite,
        Disposition.REFUSED,
        Disposition.REFUSED,
        InvalidWrite,
        Disposition.COMMITTED,
    ]
    both = {"duplicate": 1, "conflict": 1}
    assert amounts(aws) == both | {"a": 1, "b": 1, "refused refuse": 0, "refused sold": 0}


def test_all_that_is_innocent_is_committed_whoever_is_guilty(settle: Settle, aws: FakeAws) -> None:
    settle("d1", "d2", "d3")
    names = [f"n{i}" for i in range(8)]
    results = settle("sold 1", *names[:4], "d1", "d2", "sold 2", *names[4:], "d3", "guilty")
    assert results.count(Disposition.COMMITTED) == 8
    assert results.count(Disposition.DUPLICATE) == 3
    assert results.count(Disposition.REFUSED) == 2
    assert isinstance(results[-1], InvalidWrite)
    assert amounts(aws).items() >= dict.fromkeys(names, 1).items()


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("size", [2, 5, 10])
def test_a_request_refused_as_a_whole_is_halved_until_the_guilty_stands_alone(
    settle: Settle, aws: FakeAws, size: int, place: str
) -> None:
    names = [f"n{i}" for i in range(size)]
    position = {"first": 0, "middle": size // 2, "last": size - 1}[place]
    names[position] = "guilty"
    with calls(aws.runtime.dynamodb) as made:
        results = settle(*names)
    assert isinstance(results.pop(position), InvalidWrite)
    assert results == [Disposition.COMMITTED] * (size - 1)
    assert len(made) <= 2 * size - 1


@pytest.mark.parametrize(("size", "guilt"), [(2, {0, 1}), (5, {0, 4}), (10, {2, 3}), (10, {0, 9})])
def test_every_guilty_one_is_found(
    settle: Settle, aws: FakeAws, size: int, guilt: set[int]
) -> None:
    results = settle(*(f"guilty {i}" if i in guilt else f"n{i}" for i in range(size)))
    assert {i for i, result in enumerate(results) if isinstance(result, InvalidWrite)} == guilt
    assert len(amounts(aws)) == size - len(guilt)


@pytest.mark.parametrize("number", [2, 6, 12])
def test_refusals_one_after_the_other_do_not_use_up_the_attempts(
    settle: Settle, aws: FakeAws, number: int
) -> None:
    names = [f"sold {i}" for i in range(number)]
    assert settle(*names, "a") == [*[Disposition.REFUSED] * number, Disposition.COMMITTED]


def test_contention_of_one_holds_nobody_back_in_the_end(settle: Settle, aws: FakeAws) -> None:
    of_both = cancelled("None", "None", "None", "TransactionConflict")
    of_b = cancelled("None", "TransactionConflict")
    with inject(aws.runtime.dynamodb, "TransactWriteItems", of_both, None, of_b) as left:
        assert settle("a", "b") == [Disposition.COMMITTED] * 2
    assert left == []
    assert len(aws.slept) == 2


def test_the_same_commit_is_tried_again_and_not_a_new_one(settle: Settle, aws: FakeAws) -> None:
    conflict = cancelled("None", "TransactionConflict")
    with (
        inject(aws.runtime.dynamodb, "TransactWriteItems", conflict),
        calls(aws.runtime.dynamodb) as made,
    ):
        settle("a")
    commits = [p["TransactItems"][0]["Put"]["Item"]["commit"]["S"] for _, p in made]
    assert len(commits) == 2
    assert len(set(commits)) == 1


def test_every_result_is_a_fate_or_an_error(settle: Settle) -> None:
    for result in settle("a", "fail", "guilty", "sold"):
        assert isinstance(result, Disposition | OnceError)
