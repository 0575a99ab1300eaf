"""The isolation queue: a message that came often runs alone, and its neighbours do not pay."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from once.consumer import Consumer
from once.handlers.transaction import Transaction
from once.testing import FakeAws, FakeContext, inject, refused
from tests.in_memory import Start
from tests.once.batch.grouping import batch_of, message
from tests.once.batch.isolating import ARN, THIRD, URL, again, deleted, isolated, names
from tests.once.effects.provider import Killed
from tests.once.support import (
    Log,
    Note,
    amounts,
    calls,
    consumer_of,
    count,
    invoke,
    note,
    reasons,
    record,
)

handled: list[str] = []


def handle(event: Note, tx: Transaction) -> None:
    handled.append(event.name)
    if event.name == "kill":
        raise Killed
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


def test_a_message_that_came_often_is_moved_and_its_neighbours_commit(
    aws: FakeAws, consumer: Consumer
) -> None:
    batch = [*batch_of("a", "b"), message("kill", **THIRD), message("c", receive_count=2)]
    assert invoke(aws, consumer, *batch) == []
    assert amounts(aws) == dict.fromkeys("abc", 1)
    assert names(isolated(aws)) == ["kill"]
    assert "kill" not in handled


def test_what_is_moved_is_deleted_before_any_handler_runs(aws: FakeAws, consumer: Consumer) -> None:
    with calls(aws.runtime.sqs) as made, suppress(Killed):
        invoke(aws, consumer, message("kill"), message("a", **THIRD))
    assert deleted(made) == ["a"]
    assert names(isolated(aws)) == ["a"]


def test_a_known_duplicate_is_deleted_before_any_handler_runs(
    aws: FakeAws, consumer: Consumer
) -> None:
    invoke(aws, consumer, message("a"))
    with calls(aws.runtime.sqs) as made, suppress(Killed):
        invoke(aws, consumer, message("kill"), message("a", **THIRD))
    assert deleted(made) == ["a"]
    assert isolated(aws) == []
    assert amounts(aws) == {"a": 1}


def test_neighbours_of_messages_that_end_the_function_spend_two_receives_on_them(
    aws: FakeAws, consumer: Consumer
) -> None:
    """Each delivery brings another new message that ends the function."""
    healthy = [f"n{number}" for number in range(5)]
    left: list[list[str]] = []
    for receive_count in (1, 2, 3):
        batch = batch_of("kill", *healthy, receive_count=receive_count)
        with calls(aws.runtime.sqs) as made, suppress(Killed):
            invoke(aws, consumer, message("kill", f"new-{receive_count}"), *batch)
        left.append(deleted(made))
    assert left == [[], [], ["kill", *healthy]]
    for waiting in isolated(aws):
        with suppress(Killed):
            invoke(aws, consumer, again(waiting))
    assert amounts(aws) == dict.fromkeys(healthy, 1)
    assert aws.dead_letters() == []


def test_a_message_that_is_alone_stays(aws: FakeAws, consumer: Consumer) -> None:
    assert invoke(aws, consumer, message("a", **THIRD)) == []
    assert isolated(aws) == []
    assert amounts(aws) == {"a": 1}


def test_a_message_of_the_isolation_queue_stays_there(aws: FakeAws, consumer: Consumer) -> None:
    invoke(aws, consumer, *batch_of("a", "b", **THIRD))
    waiting = [again(one, 3) for one in isolated(aws)]
    assert invoke(aws, consumer, *waiting) == []
    assert isolated(aws) == []
    assert amounts(aws) == {"a": 1, "b": 1}


def test_a_message_group_keeps_its_order_and_its_queue(aws: FakeAws, consumer: Consumer) -> None:
    assert invoke(aws, consumer, *batch_of("a", "b", group="g", **THIRD)) == []
    assert isolated(aws) == []
    assert handled == ["a", "b"]


def test_a_message_that_cannot_be_read_is_quarantined_where_it_is(
    aws: FakeAws, consumer: Consumer
) -> None:
    assert invoke(aws, consumer, record("{", "bad", **THIRD), message("a")) == []
    assert isolated(aws) == []
    assert reasons(aws) == ["unparseable"]


def test_without_an_isolation_queue_it_runs_last(start: Start, consumer: Consumer) -> None:
    aws = start(consumer)
    with suppress(Killed):
        invoke(aws, consumer, message("kill", **THIRD), *batch_of("a", "b"))
    assert handled == ["a", "b", "kill"]
    assert amounts(aws) == {"a": 1, "b": 1}


def test_while_a_dependency_is_down_no_message_is_moved(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumer_of()
    aws = start(consumer, isolation_queue_url=URL)
    aws.sqs.create_queue(QueueName="isolation")
    monkeypatch.setattr("once.failures.circuit_breaker.CircuitBreaker.seconds_open", 60.0)
    assert invoke(aws, consumer, *batch_of("a", "b", **THIRD)) == ["a", "b"]
    assert isolated(aws) == []


@pytest.fixture
def no_sending(aws: FakeAws) -> Iterator[None]:
    with inject(aws.runtime.sqs, "SendMessageBatch", refused("ServiceUnavailable")):
        yield


@pytest.mark.usefixtures("no_sending")
def test_what_could_not_be_moved_stays_and_runs_last(aws: FakeAws, consumer: Consumer) -> None:
    log = Log(aws)
    with calls(aws.runtime.sqs) as made, suppress(Killed):
        invoke(aws, consumer, message("kill", **THIRD), *batch_of("a", "b"))
    assert deleted(made) == []
    assert handled == ["a", "b", "kill"]
    assert amounts(aws) == {"a": 1, "b": 1}
    [line] = [line for line in log.lines() if line["message"] == "not isolated"]
    assert (line["messages"], line["error"]) == (1, "ClientError ServiceUnavailable")


def test_only_what_sqs_confirms_is_deleted(
    aws: FakeAws, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(**request: Any) -> dict[str, Any]:
        return {"Successful": [{"Id": "1"}], "Failed": [{"Id": "0", "Code": "InternalError"}]}

    monkeypatch.setattr(aws.runtime.sqs, "send_message_batch", send, raising=False)
    with calls(aws.runtime.sqs) as made:
        assert invoke(aws, consumer, *batch_of("a", "b", **THIRD)) == []
    assert deleted(made) == ["b"]
    assert amounts(aws) == {"a": 1}


def test_where_the_delete_fails_the_answer_acknowledges(aws: FakeAws, consumer: Consumer) -> None:
    with inject(aws.runtime.sqs, "DeleteMessageBatch", refused("ServiceUnavailable")):
        assert invoke(aws, consumer, *batch_of("a", "b", **THIRD)) == []
    assert names(isolated(aws)) == ["a", "b"]


def test_when_the_time_is_up_no_message_is_moved(aws: FakeAws, consumer: Consumer) -> None:
    reported = invoke(aws, consumer, *batch_of("a", "b", **THIRD), context=FakeContext(4000))
    assert reported == ["a", "b"]
    assert isolated(aws) == []


def test_a_duplicate_in_the_isolation_queue_counts_as_delivered_again(
    aws: FakeAws, consumer: Consumer, printed: Callable[[], list[dict[str, Any]]]
) -> None:
    invoke(aws, consumer, *batch_of("a", "b", **THIRD))
    [a, _] = isolated(aws)
    invoke(aws, consumer, again(a))
    invoke(aws, consumer, again(a))
    counted = [line for line in printed() if "DuplicatesRedelivered" in line]
    assert [line["DuplicatesRedelivered"] for line in counted] == [[1.0]]


def test_moved_messages_are_counted(
    aws: FakeAws, consumer: Consumer, printed: Callable[[], list[dict[str, Any]]]
) -> None:
    invoke(aws, consumer, *batch_of("a", "b", **THIRD))
    assert [line["Isolated"] for line in printed() if "Isolated" in line] == [[2.0]]


def test_a_delay_is_set_in_the_queue_that_the_message_came_from(start: Start) -> None:
    def fail(event: Note, tx: Transaction) -> None:
        raise ValueError

    consumer = consumer_of(fail)
    aws = start(consumer, isolation_queue_url=URL)
    bodies = [json.dumps(note(name)) for name in "ab"]
    with calls(aws.runtime.sqs) as made:
        invoke(aws, consumer, record(bodies[0], "m-1"))
        invoke(aws, consumer, record(bodies[1], "m-2", eventSourceARN=ARN))
    assert [p["QueueUrl"] for _, p in made] == [aws.queue, URL]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[dict[str, Any]]]:
    """The metrics that were printed."""
    return lambda: [
        found
        for line in capsys.readouterr().out.splitlines()
        if "_aws" in (found := json.loads(line))
    ]
