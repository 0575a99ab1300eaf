"""Tables and queues that are missing while a deployment is under way, or after a bad one."""

import json
from typing import Any

import pytest

from once.failures.circuit_breaker import CircuitBreaker
from once.testing import FakeAws, FakeContext
from once.transaction import Transaction
from tests.in_memory import Start
from tests.once.effects.provider import LAST_RECEIVE, Till
from tests.once.support import (
    COUNTERS,
    Note,
    amounts,
    consumer_of,
    count,
    failures,
    invoke,
    note,
    reasons,
    record,
)


def read_and_count(event: Note, tx: Transaction) -> None:
    tx.get(COUNTERS, {"name": "other"})
    count(event, tx)


def without(aws: FakeAws, table: str) -> None:
    aws.dynamodb.delete_table(TableName=table)


def with_again(aws: FakeAws, table: str, key: str) -> None:
    aws.dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


@pytest.mark.parametrize("handler", [count, read_and_count])
@pytest.mark.parametrize(("table", "key"), [("counters", "name"), ("dedup", "pk")])
def test_a_missing_table_dead_letters_no_message_and_opens_the_breaker(
    start: Start, monkeypatch: pytest.MonkeyPatch, table: str, key: str, handler: Any
) -> None:
    breakers: list[CircuitBreaker] = []
    learn = CircuitBreaker.learn

    def watched(self: CircuitBreaker, *ended: Any) -> None:
        breakers.append(self)
        learn(self, *ended)

    monkeypatch.setattr(CircuitBreaker, "learn", watched)
    consumer = consumer_of(handler)
    aws = start(consumer)
    without(aws, table)
    handle = consumer.bound_to(aws.runtime)
    for receive_count in range(1, LAST_RECEIVE):
        message = record(json.dumps(note("a", event_id="a")), "m", receive_count=receive_count)
        assert failures(handle({"Records": [message]}, FakeContext())) == ["m"]
    assert reasons(aws) == []
    assert breakers[0].is_open
    with_again(aws, table, key)
    assert failures(aws.deliver(note("a", event_id="a"))) == []
    assert amounts(aws) == {"a": 1}


def test_a_group_commits_without_the_message_whose_table_is_missing(start: Start) -> None:
    def some(event: Note, tx: Transaction) -> None:
        (read_and_count if event.name == "a" else lambda *_: None)(event, tx)

    aws = start(consumer_of(some))
    without(aws, "counters")
    answer = aws.deliver(*map(note, "abc"), fails=True)
    assert len(failures(answer)) == 1
    assert len(aws.items("dedup")) == 2
    assert reasons(aws) == []


def test_a_missing_dead_letter_queue_loses_no_letter(start: Start) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    aws.sqs.delete_queue(QueueUrl=aws.dead_letter_queue)
    assert invoke(aws, consumer, record("{", "m", receive_count=LAST_RECEIVE)) == ["m"]


@pytest.mark.parametrize("table", ["counters", "dedup"])
def test_a_table_that_is_missing_at_the_outcome_makes_no_second_charge(
    till: Till, table: str
) -> None:
    till.provider.plan = [lambda: without(till.aws, table)]
    event = note()
    assert not till.deliver(event)
    assert till.dead_letters() == []
    with_again(till.aws, table, {"counters": "name", "dedup": "pk"}[table])
    till.later()
    assert till.deliver(event)
    assert len(till.provider.charges) == 1
    till.assert_completed()
