"""Isolation queue: a message that was received often runs there alone, and affects no others.

A message is *spent* if it was received more often than it may run.
"""

import json
from typing import Any

import pytest

from once.schema import Limits
from once.testing import inject, refused
from tests.once.batch.batches import SECOND, SPENT, THIRD, batch_of, message
from tests.once.batch.function import ISOLATION_ARN, ISOLATION_URL, Function, Make, isolated_again
from tests.once.effects.provider import TAKEOVER, Till
from tests.once.support import Log, facts, record

UNAVAILABLE = refused("ServiceUnavailable")


@pytest.fixture
def function(make: Make) -> Function:
    return make(isolation=True)


def test_an_often_received_message_is_moved_and_the_others_commit(function: Function) -> None:
    batch = [*batch_of("a", "b"), message("kill", **THIRD), message("c", **SECOND)]
    function.run(*batch)
    assert function.amounts == dict.fromkeys("abc", 1)
    assert function.isolated_names() == ["kill"]
    assert "kill" not in function.handled


@pytest.mark.parametrize("known", [False, True], ids=["new", "duplicate"])
def test_a_settled_message_is_deleted_before_handlers_run(
    function: Function, *, known: bool
) -> None:
    function.seed(*["a"] * known)
    made = function.run(message("kill"), message("a", **THIRD), reports=None)
    assert made.deleted == ["a"]
    assert function.isolated_names() == ["a"] * (not known)
    assert function.amounts == ({"a": 1} if known else {})


def test_messages_that_end_the_function_cost_the_others_two_receives(function: Function) -> None:
    """Each delivery brings another new message that ends the function."""
    healthy = [f"n{number}" for number in range(5)]
    deleted = [
        function.run(
            message("kill", f"new-{receive_count}"),
            *batch_of("kill", *healthy, receive_count=receive_count),
            reports=None,
        ).deleted
        for receive_count in (1, 2, 3)
    ]
    assert deleted == [[], [], ["kill", *healthy]]
    for sent in function.isolated():
        again = isolated_again(sent)
        function.run(again, reports=None if "kill" in again["body"] else [])
    assert function.amounts == dict.fromkeys(healthy, 1)
    assert function.reasons() == []


def test_a_message_that_is_alone_in_its_batch_is_not_moved(function: Function) -> None:
    function.run(message("a", **THIRD))
    assert function.isolated() == []
    assert function.amounts == {"a": 1}


def test_a_message_of_the_isolation_queue_is_not_moved(function: Function) -> None:
    function.run(*batch_of("a", "b", **THIRD))
    function.run(*(isolated_again(sent, 3) for sent in function.isolated()))
    assert function.isolated() == []
    assert function.amounts == {"a": 1, "b": 1}


def test_a_message_of_a_fifo_group_is_not_moved(function: Function) -> None:
    function.run(*batch_of("a", "b", group="g", **THIRD))
    assert function.isolated() == []
    assert function.handled == ["a", "b"]


def test_an_unreadable_message_is_quarantined_and_not_moved(function: Function) -> None:
    function.run(record("{", "bad", **THIRD), message("a"))
    assert function.isolated() == []
    assert function.reasons() == ["unparseable"]


def test_while_a_dependency_fails_no_message_is_moved(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("once.failures.circuit_breaker.CircuitBreaker.seconds_open", 60.0)
    function.run(*batch_of("a", "b", **THIRD), reports=["a", "b"])
    assert function.isolated() == []


def test_after_the_time_is_up_no_message_is_moved(function: Function) -> None:
    function.context.remaining_ms = 4000
    function.run(*batch_of("a", "b", **THIRD), reports=["a", "b"])
    assert function.isolated() == []


@pytest.mark.parametrize("isolation", [False, True], ids=["no queue", "no answer"])
def test_a_message_that_cannot_be_moved_runs_last(make: Make, *, isolation: bool) -> None:
    function = make(isolation=isolation)
    log, faults = Log(function.aws), [UNAVAILABLE] * isolation
    with inject(function.aws.runtime.sqs, "SendMessageBatch", *faults) as left:
        made = function.run(message("kill", **THIRD), *batch_of("a", "b"), reports=None)
    assert left == []
    assert made.deleted == []
    assert function.handled == ["a", "b", "kill"]
    assert function.amounts == {"a": 1, "b": 1}
    warnings = [line for line in log.lines() if line["message"] == "not isolated"]
    assert [(line["messages"], line["error"]) for line in warnings] == [
        (1, "ClientError ServiceUnavailable")
    ] * isolation


def test_only_messages_that_sqs_confirms_are_deleted(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(**request: Any) -> dict[str, Any]:
        return {"Successful": [{"Id": "1"}], "Failed": [{"Id": "0", "Code": "InternalError"}]}

    monkeypatch.setattr(function.aws.runtime.sqs, "send_message_batch", send, raising=False)
    assert function.run(*batch_of("a", "b", **THIRD)).deleted == ["b"]
    assert function.amounts == {"a": 1}


def test_a_moved_message_that_cannot_be_deleted_is_acknowledged(function: Function) -> None:
    with inject(function.aws.runtime.sqs, "DeleteMessageBatch", UNAVAILABLE) as left:
        function.run(*batch_of("a", "b", **THIRD))
    assert left == []
    assert function.isolated_names() == ["a", "b"]


def test_a_delay_is_set_in_the_queue_of_the_message(function: Function) -> None:
    isolated: Any = {"eventSourceARN": ISOLATION_ARN}
    made = [
        function.run(sent, reports=["fail"])
        for sent in (message("fail"), message("fail", **isolated))
    ]
    urls = [parameters["QueueUrl"] for run in made for _, parameters in run.sqs]
    assert urls == [function.aws.queue, ISOLATION_URL]


def test_thirty_messages_are_moved_in_three_calls(function: Function) -> None:
    made = function.run(*batch_of(*(f"n{number}" for number in range(30)), **THIRD))
    assert [name for name, _ in made.sqs] == ["SendMessageBatch", "DeleteMessageBatch"] * 3


def test_a_call_holds_at_most_the_bytes_that_sqs_accepts(function: Function) -> None:
    made = function.run(*(message("n" * 200_000, name, **THIRD) for name in "abcdefgh"))
    sent = [p["Entries"] for name, p in made.sqs if name == "SendMessageBatch"]
    assert [len(entries) for entries in sent] == [5, 3]
    for entries in sent:
        assert sum(len(entry["MessageBody"]) for entry in entries) < Limits.MESSAGE_BYTES


def test_a_moved_message_keeps_its_attributes_and_history(function: Function) -> None:
    trace = {"trace": {"stringValue": "t-1", "dataType": "String"}}
    moved = message("kill", "e-1", message_id="m-1", messageAttributes=trace, **THIRD)
    function.run(moved, message("a"))
    [sent] = function.isolated()
    history = {"first-seen": "2023-11-14T22:13:20.000+00:00", "attributes": json.dumps(trace)}
    assert facts(sent) == {**history, "lineage": "m-1"}
    function.run(isolated_again(sent, 6))
    [letter] = function.aws.dead_letters()
    assert facts(letter).items() >= {**history, "lineage": f"m-1,{sent['MessageId']}"}.items()


def test_a_message_that_does_not_fit_with_its_history_is_not_moved(function: Function) -> None:
    """The copy must be complete, because consumers read no compressed body."""
    large = {"other": {"stringValue": "x" * Limits.MESSAGE_BYTES, "dataType": "String"}}
    function.run(message("a", messageAttributes=large, **THIRD), message("b"))
    assert function.isolated() == []
    assert function.amounts == {"a": 1, "b": 1}


@pytest.mark.parametrize("others", [[], ["b"]], ids=["alone", "in a batch"])
def test_a_spent_message_is_moved_with_new_receives(function: Function, others: list[str]) -> None:
    function.run(message("a", **SPENT), *batch_of(*others))
    assert function.isolated_names() == ["a"]
    assert function.reasons() == []


def test_a_spent_message_that_cannot_be_moved_is_dead_lettered(function: Function) -> None:
    with inject(function.aws.runtime.sqs, "SendMessageBatch", UNAVAILABLE):
        function.run(message("a", **SPENT))
    assert function.reasons() == ["unfinished"]


def test_a_spent_message_is_dead_lettered_without_a_run(make: Make) -> None:
    function = make()
    function.run(message("kill", **SPENT))
    assert function.handled == []
    [letter] = function.aws.dead_letters()
    assert facts(letter)["reason"] == "unfinished"
    assert facts(letter)["error"] == (
        "Unfinished: the function did not start, died, timed out or was throttled in each of its "
        "5 deliveries"
    )


@pytest.mark.parametrize("receive_count", [6, 7])
@pytest.mark.parametrize(
    ("name", "reasons"), [("a", []), ("b", ["key-conflict"])], ids=["duplicate", "key conflict"]
)
def test_a_record_decides_about_a_spent_message(
    function: Function, name: str, reasons: list[str], receive_count: int
) -> None:
    function.seed("a")
    function.run(message(name, "a", receive_count=receive_count))
    assert function.handled == []
    assert function.reasons() == reasons
    assert function.amounts == {"a": 1}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (TAKEOVER, "its effect 'charge' may have happened under the provider key {key}"),
        (
            0,
            "another delivery is at the effect 'charge' for at most 630 s more, under the",
        ),
    ],
    ids=["after its lease", "during its lease"],
)
def test_the_dead_letter_of_an_unfinished_message_names_its_pending_effect(
    till: Till, seconds: int, text: str
) -> None:
    event = till.leave_pending(charged=True)
    till.later(seconds)
    assert till.deliver(event, receive_count=6)
    assert till.standing == "in-flight"
    [(key, _)] = till.provider.calls
    [letter] = till.aws.dead_letters()
    assert facts(letter)["reason"] == "unfinished"
    assert text.format(key=key) in facts(letter)["error"]
