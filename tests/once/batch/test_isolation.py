"""Isolation queue: a message that was received often is read and runs there alone.

A message is *spent* if it was received more often than it may run. `kill` ends the function while
it runs, and `fatal` while it is read.
"""

import json
from typing import Any

import pytest

from once.names import Limits
from once.testing import inject, refused
from tests.once.batch.function import (
    ISOLATION_ARN,
    ISOLATION_URL,
    LAST,
    READ,
    SPENT,
    THIRD,
    WRITE,
    Function,
    Make,
    batch_of,
    isolated_again,
    message,
)
from tests.once.support import Log, facts

UNAVAILABLE = refused("ServiceUnavailable")
DEATHS = pytest.mark.parametrize("fatal", ["kill", "fatal"], ids=["runs", "read"])


@pytest.fixture
def function(make: Make) -> Function:
    return make(isolation=True)


@DEATHS
def test_an_often_received_message_is_moved_before_a_body_is_read(
    function: Function, fatal: str
) -> None:
    made = function.run(message(fatal), message("a", **THIRD), reports=None)
    assert made.deleted == ["a"]
    assert function.isolated_names() == ["a"]
    assert function.amounts == {}


def test_a_moved_message_keeps_its_trace_header(function: Function) -> None:
    traced = message("a", **THIRD)
    traced["attributes"]["AWSTraceHeader"] = "Root=1-5759e988-bd862e3fe1be46a994272793"
    made = function.run(traced, *batch_of("b", **THIRD))
    [entries] = [p["Entries"] for name, p in made.sqs if name == "SendMessageBatch"]
    value = {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    assert entries[0]["MessageSystemAttributes"] == {"AWSTraceHeader": value}
    assert "MessageSystemAttributes" not in entries[1]


def test_a_known_duplicate_is_acknowledged_in_the_isolation_queue_without_a_run(
    function: Function,
) -> None:
    function.seed("a")
    function.run(*batch_of("a", "b", **THIRD))
    known, new = (isolated_again(sent) for sent in function.isolated())
    assert function.run(known).operations == [READ]
    assert function.run(new).operations == [READ, WRITE]
    assert function.handled == ["b"]
    assert function.amounts == {"a": 1, "b": 1}


@DEATHS
def test_messages_that_end_the_function_cost_the_others_two_receives(
    function: Function, fatal: str
) -> None:
    """Each delivery brings another new message that ends the function."""
    healthy = [f"n{number}" for number in range(5)]
    deleted = [
        function.run(
            message(fatal, f"new-{receive_count}"),
            *batch_of(fatal, *healthy, receive_count=receive_count),
            reports=None,
        ).deleted
        for receive_count in (1, 2, 3)
    ]
    assert deleted == [[], [], [fatal, *healthy]]
    for sent in function.isolated():
        again = isolated_again(sent)
        function.run(again, reports=None if fatal in again["body"] else [])
    assert function.amounts == dict.fromkeys(healthy, 1)
    assert function.reasons() == []


LARGE: Any = {"other": {"stringValue": "x" * Limits.MESSAGE_BYTES, "dataType": "String"}}


@pytest.mark.parametrize(
    "batch",
    [
        batch_of("a", **THIRD),
        batch_of("a", "b", eventSourceARN=ISOLATION_ARN, **THIRD),
        batch_of("a", "b", group="g", **THIRD),
        # The copy must be complete, because consumers read no compressed body.
        [message("a", messageAttributes=LARGE, **THIRD), message("b")],
    ],
    ids=["alone", "isolated already", "of a FIFO group", "too large with its history"],
)
def test_a_message_that_is_not_moved_runs(function: Function, batch: list[Any]) -> None:
    function.run(*batch)
    assert function.isolated() == []
    assert function.amounts == dict.fromkeys("ab"[: len(batch)], 1)


def test_while_a_dependency_fails_no_message_is_moved_or_read(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("once.failures.circuit_breaker.CircuitBreaker.seconds_open", 60.0)
    function.run(*batch_of("a", "fatal", **THIRD), reports=["a", "fatal"])
    assert function.isolated() == []


def test_a_moved_message_that_failed_leaves_the_next_attempt_to_untried_ones(
    function: Function,
) -> None:
    function.keep_warm()
    function.aws.time = 1_700_000_000.0
    for name in "abc":
        function.run(message(name), reports=[name], writes=[refused("AccessDeniedException")])
    delay = function.run(message("untried"), reports=["untried"]).delays["untried"]
    function.aws.time += 60
    function.run(message("a", **THIRD), message("b", **THIRD))
    [sent, _] = function.isolated()
    made = function.run(isolated_again(sent), reports=[sent["MessageId"]])
    assert made.dynamodb == []
    function.aws.time += delay
    function.run(isolated_again(sent))
    assert function.amounts == {"a": 1}


def test_after_the_time_is_up_no_message_is_moved_or_read(function: Function) -> None:
    function.context.remaining_ms = 4000
    batch = [message("fatal"), *batch_of("a", "fatal b", **THIRD)]
    function.run(*batch, reports=["fatal", "a", "fatal b"])
    assert function.isolated() == []


@DEATHS
@pytest.mark.parametrize("isolation", [False, True], ids=["no queue", "no answer"])
def test_a_message_that_cannot_be_moved_is_read_after_the_others_are_settled(
    make: Make, fatal: str, *, isolation: bool
) -> None:
    function = make(isolation=isolation)
    log, faults = Log(function.aws), [UNAVAILABLE] * isolation
    batch = [message(fatal, **THIRD), *batch_of("fail", "a", "b")]
    with inject(function.aws.runtime.sqs, "SendMessageBatch", *faults) as left:
        made = function.run(*batch, reports=None)
    assert left == []
    assert made.deleted == ["a", "b"]
    assert function.handled == ["fail", "a", "b", *["kill"] * (fatal == "kill")]
    assert function.amounts == {"a": 1, "b": 1}
    warnings = [line for line in log.lines() if line["message"] == "not isolated"]
    assert [(line["messages"], line["error"]) for line in warnings] == [
        (1, "ClientError ServiceUnavailable")
    ] * isolation


@DEATHS
def test_a_last_chance_is_settled_before_another_body_is_read(make: Make, fatal: str) -> None:
    """A new message that ends the function would take the last chance away."""
    function = make()
    made = function.run(message(fatal), message("a", **LAST), reports=None)
    assert made.deleted == ["a"]
    assert function.amounts == {"a": 1}


def test_only_messages_that_sqs_confirms_are_deleted(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(**request: Any) -> dict[str, Any]:
        return {"Successful": [{"Id": "1"}], "Failed": [{"Id": "0", "Code": "InternalError"}]}

    log = Log(function.aws)
    monkeypatch.setattr(function.aws.runtime.sqs, "send_message_batch", send, raising=False)
    made = function.run(*batch_of("a", "b", **THIRD))
    assert made.deleted == ["b"]  # "a" ran
    assert [p["QueueUrl"] for name, p in made.sqs if name == "DeleteMessageBatch"] == [
        function.aws.queue
    ]
    [warning] = [line for line in log.lines() if line["message"] == "not isolated"]
    assert (warning["messages"], warning["error"]) == (1, "InternalError")
    assert function.amounts == {"a": 1}


def test_what_ends_in_the_isolation_queue_is_deleted_there(function: Function) -> None:
    function.run(*batch_of("a", "b", **THIRD))
    batch = [isolated_again(sent, receive_count=3) for sent in function.isolated()]
    made = function.run(*batch)
    assert [p["QueueUrl"] for _, p in made.sqs] == [ISOLATION_URL]
    assert len(made.deleted) == 1  # the answer to Lambda acknowledges the last one


def test_a_moved_message_that_cannot_be_deleted_is_acknowledged(function: Function) -> None:
    log = Log(function.aws)
    with inject(function.aws.runtime.sqs, "DeleteMessageBatch", UNAVAILABLE) as left:
        function.run(*batch_of("a", "b", **THIRD))
    assert left == []
    warning = log.lines()[0]
    assert warning["message"] == "finished, and not deleted yet"
    assert (warning["messages"], warning["error"]) == (2, "ClientError ServiceUnavailable")
    assert function.isolated_names() == ["a", "b"]


def test_a_delay_is_set_in_the_queue_of_the_message(function: Function) -> None:
    isolated: Any = {"eventSourceARN": ISOLATION_ARN}
    made = [
        function.run(sent, reports=["fail"])
        for sent in (message("fail"), message("fail", **isolated))
    ]
    urls = [parameters["QueueUrl"] for run in made for _, parameters in run.sqs]
    assert urls == [function.aws.queue, ISOLATION_URL]


def test_a_call_holds_at_most_the_messages_and_bytes_that_sqs_accepts(function: Function) -> None:
    made = function.run(*batch_of(*(f"n{number}" for number in range(30)), **THIRD))
    assert [name for name, _ in made.sqs] == ["SendMessageBatch", "DeleteMessageBatch"] * 3
    made = function.run(*(message("n" * 200_000, name, **THIRD) for name in "abcdefgh"))
    sent = [p["Entries"] for name, p in made.sqs if name == "SendMessageBatch"]
    assert [len(entries) for entries in sent] == [5, 3]
    for entries in sent:
        assert sum(len(entry["MessageBody"]) for entry in entries) < Limits.MESSAGE_BYTES


def test_a_moved_message_keeps_its_attributes_history_and_fair_group(function: Function) -> None:
    trace = {"trace": {"stringValue": "t-1", "dataType": "String"}}
    fair: Any = {"group": "tenant-1", "eventSourceARN": "arn:aws:sqs:us-east-1:1:queue"}
    moved = message("kill", "e-1", message_id="m-1", messageAttributes=trace, **fair, **THIRD)
    made = function.run(moved, message("a"))
    [entries] = [each["Entries"] for name, each in made.sqs if name == "SendMessageBatch"]
    assert [entry["MessageGroupId"] for entry in entries] == ["tenant-1"]
    [sent] = function.isolated()
    history = {"first-seen": "2023-11-14T22:13:20.000+00:00", "attributes": json.dumps(trace)}
    assert facts(sent) == {**history, "lineage": "m-1"}
    function.run(isolated_again(sent, 6))
    [dead_letter] = function.aws.dead_letters()
    assert facts(dead_letter).items() >= {**history, "lineage": f"m-1,{sent['MessageId']}"}.items()


@pytest.mark.parametrize("others", [[], ["b"]], ids=["alone", "in a batch"])
def test_a_spent_message_is_moved_with_new_receives(function: Function, others: list[str]) -> None:
    function.run(message("a", **SPENT), *batch_of(*others))
    assert function.isolated_names() == ["a"]
    assert function.reasons() == []


def test_a_spent_message_that_cannot_be_moved_is_dead_lettered(function: Function) -> None:
    with inject(function.aws.runtime.sqs, "SendMessageBatch", UNAVAILABLE):
        function.run(message("a", **SPENT))
    assert function.reasons() == ["unfinished"]


@DEATHS
@pytest.mark.parametrize("is_isolated", [False, True], ids=["no isolation", "isolated"])
def test_a_spent_message_is_dead_lettered_unread(
    make: Make, fatal: str, *, is_isolated: bool
) -> None:
    function = make(isolation=is_isolated)
    more: Any = {"eventSourceARN": ISOLATION_ARN} if is_isolated else {}
    assert function.run(message(fatal, **SPENT, **more)).dynamodb == []
    assert function.handled == []
    [dead_letter] = function.aws.dead_letters()
    assert facts(dead_letter)["reason"] == "unfinished"
    assert facts(dead_letter)["error"] == (
        "Unfinished: the function did not start, died, timed out or was throttled in each of its "
        "5 deliveries"
    )
