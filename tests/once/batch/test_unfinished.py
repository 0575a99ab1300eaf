"""A message that was delivered as often as it may run: it is not run again, and says why."""

from collections.abc import Iterator

import pytest

from once.consumer import Consumer
from once.handlers.transaction import Transaction
from once.testing import FakeAws, inject, refused
from tests.in_memory import Start
from tests.once.batch.grouping import batch_of, message
from tests.once.batch.isolating import SPENT, URL, isolated, names
from tests.once.effects.provider import Killed, Till, after
from tests.once.support import (
    Note,
    amounts,
    consumer_of,
    count,
    facts,
    invoke,
    note,
    reasons,
)

handled: list[str] = []


def handle(event: Note, tx: Transaction) -> None:
    handled.append(event.name)
    count(event, tx)


@pytest.fixture
def consumer() -> Consumer:
    handled.clear()
    return consumer_of(handle)


@pytest.fixture
def aws(start: Start, consumer: Consumer) -> FakeAws:
    aws = start(consumer, isolation_queue_url=URL)
    aws.sqs.create_queue(QueueName="isolation")
    return aws


@pytest.fixture
def no_sending(aws: FakeAws) -> Iterator[None]:
    with inject(aws.runtime.sqs, "SendMessageBatch", refused("ServiceUnavailable")):
        yield


@pytest.mark.parametrize("others", [[], ["b"]], ids=["alone", "beside another"])
def test_a_message_whose_receives_are_spent_has_all_of_them_again_in_isolation(
    aws: FakeAws, consumer: Consumer, others: list[str]
) -> None:
    assert invoke(aws, consumer, message("a", **SPENT), *batch_of(*others)) == []
    assert names(isolated(aws)) == ["a"]
    assert aws.dead_letters() == []


@pytest.mark.usefixtures("no_sending")
def test_a_spent_message_that_cannot_be_moved_is_dead_lettered_with_its_reason(
    aws: FakeAws, consumer: Consumer
) -> None:
    assert invoke(aws, consumer, message("a", **SPENT)) == []
    assert reasons(aws) == ["unfinished"]


def test_a_message_that_ended_the_function_in_each_delivery_is_dead_lettered_unrun(
    start: Start, consumer: Consumer
) -> None:
    aws = start(consumer)
    assert invoke(aws, consumer, message("kill", **SPENT)) == []
    assert handled == []
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "unfinished"
    assert facts(letter)["error"] == (
        "Unfinished: the function died, timed out or was throttled in each of its 5 deliveries"
    )


@pytest.mark.parametrize("receive_count", [6, 7])
def test_a_spent_message_that_was_committed_is_a_duplicate(
    start: Start, consumer: Consumer, receive_count: int
) -> None:
    aws = start(consumer)
    invoke(aws, consumer, message("a"))
    assert invoke(aws, consumer, message("a", receive_count=receive_count)) == []
    assert aws.dead_letters() == []
    assert amounts(aws) == {"a": 1}


def test_a_spent_message_whose_key_conflicts_says_so(start: Start, consumer: Consumer) -> None:
    aws = start(consumer)
    invoke(aws, consumer, message("a", "e"))
    assert invoke(aws, consumer, message("b", "e", **SPENT)) == []
    assert reasons(aws) == ["key-conflict"]


def test_a_spent_message_with_a_pending_effect_names_the_effect_and_its_key(till: Till) -> None:
    till.provider.plan = [after(Killed())]
    event = note("a")
    assert till.killed(event)
    assert till.deliver(event, receive_count=6)
    assert till.standing == "in-flight"
    [(key, _)] = till.provider.calls
    [letter] = till.aws.dead_letters()
    assert facts(letter)["reason"] == "unfinished"
    assert f"its effect 'charge' is pending under the provider key {key}" in facts(letter)["error"]
