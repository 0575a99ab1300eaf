"""What a function says of itself: lines in CloudWatch's embedded metric format."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from once.errors import NotDone, RetryableError
from once.handlers.effect_declaration import Policy
from once.handlers.transaction import Transaction
from once.schema import Limits, Metric
from once.testing import FakeAws, FakeContext, cancelled, inject
from tests.in_memory import Start
from tests.once.effects.provider import Provider, start_till
from tests.once.support import (
    Log,
    Note,
    SoldOut,
    calls,
    consumer_of,
    count,
    failures,
    invoke,
    note,
    record,
)

Read = Callable[[], list[dict[str, Any]]]
WRITE = "TransactWriteItems"


def handle(event: Note, tx: Transaction) -> None:
    match event.name:
        case "sold":
            raise SoldOut
        case "fail":
            raise RetryableError
        case _:
            count(event, tx)


@pytest.fixture
def aws(start: Start, monkeypatch: pytest.MonkeyPatch) -> FakeAws:
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "once-notes")
    consumer = consumer_of(handle)
    consumer.rejects(SoldOut)(lambda event, refusal, tx: None)
    return start(consumer)


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Read:
    def lines() -> list[dict[str, Any]]:
        printed = (json.loads(line) for line in capsys.readouterr().out.splitlines())
        return [line for line in printed if "_aws" in line]

    return lines


def values(line: dict[str, Any]) -> dict[str, Any]:
    [metrics] = line["_aws"]["CloudWatchMetrics"]
    assert metrics["Namespace"] == Metric.NAMESPACE
    return {m["Name"]: line[m["Name"]] for m in metrics["Metrics"]}


def dimensions(line: dict[str, Any]) -> dict[str, str]:
    [metrics] = line["_aws"]["CloudWatchMetrics"]
    [names] = metrics["Dimensions"]
    return {name: line[name] for name in names}


def test_a_batch_is_one_line_with_the_service_as_its_dimension(aws: FakeAws, read: Read) -> None:
    aws.deliver(note("a"), note("b"), note("sold"), note("fail"))
    [line] = read()
    assert dimensions(line) == {"service": "once-notes"}
    found = values(line)
    assert found.pop(Metric.COMMIT_MS)[0] > 0
    assert found == {
        Metric.COMMITTED: [2],
        Metric.REFUSED: [1],
        Metric.RETRIED: [1],
        Metric.GROUP_SIZE: [3],
    }


def test_what_is_quarantined_is_counted_by_its_reason_as_well(aws: FakeAws, read: Read) -> None:
    aws.deliver("no JSON", "nor this", note("a"))
    first, second = read()
    assert values(first)[Metric.QUARANTINED] == [2]
    assert dimensions(first) == {"service": "once-notes"}
    assert values(second) == {Metric.QUARANTINED: [2]}
    assert dimensions(second) == {"service": "once-notes", "reason": "unparseable"}


def test_nothing_is_left_over_for_the_next_batch(aws: FakeAws, read: Read) -> None:
    aws.deliver("no JSON")
    read()
    aws.deliver(note("a"))
    [line] = read()
    assert dimensions(line) == {"service": "once-notes"}
    assert Metric.QUARANTINED not in values(line)


def test_duplicates_are_told_apart_by_who_is_behind_them(
    start: Start, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumer_of()
    aws = start(consumer)
    body = json.dumps(note("a", event_id="e"))
    lineage = {"once-lineage": {"stringValue": "m", "dataType": "String"}}
    invoke(aws, consumer, record(body, "first"))
    read()
    invoke(
        aws,
        consumer,
        record(body, "resent"),
        record(body, "redelivered", receive_count=2),
        record(body, "redriven", messageAttributes=lineage),
    )
    [line] = read()
    assert values(line) == {Metric.RESENT: [1], Metric.REDELIVERED: [1], Metric.REDRIVEN: [1]}


def test_conflicts_are_counted(aws: FakeAws, read: Read) -> None:
    with inject(aws.runtime.dynamodb, WRITE, cancelled("None", "TransactionConflict")):
        aws.deliver(note("a"))
    [line] = read()
    assert values(line)[Metric.CONFLICTS] == [1]


def test_a_batch_of_nothing_says_nothing(aws: FakeAws, read: Read) -> None:
    aws.deliver()
    assert read() == []


def test_effects_are_counted_by_what_became_of_them(
    start: Start, provider: Provider, read: Read
) -> None:
    till, event = start_till(start, provider), note()
    provider.plan = [TimeoutError()] * 3
    assert not till.deliver(event)
    assert values(read()[0])[Metric.EFFECTS_UNANSWERED] == [1]
    till.later()
    assert till.deliver(event)
    found = values(read()[0])
    assert found[Metric.EFFECTS_DONE] == [1]
    assert found[Metric.PENDING_SECONDS][0] > 0


def test_an_effect_that_only_a_person_can_settle_is_counted(
    start: Start, provider: Provider, read: Read
) -> None:
    till = start_till(start, provider, policy=Policy.AT_MOST_ONCE)
    provider.plan = [TimeoutError()]
    assert till.deliver(note())
    found = values(read()[0])
    assert (found[Metric.EFFECTS_UNKNOWN], found[Metric.QUARANTINED]) == ([1], [1])


def test_what_was_not_tried_because_of_the_breaker_is_counted(
    start: Start, provider: Provider, read: Read
) -> None:
    till = start_till(start, provider)
    warm = till.consumer.bound_to(till.aws.runtime)
    provider.plan = [NotDone()] * 100
    waiting = [record(json.dumps(note(name)), name, receive_count=3) for name in ("a", "b")]
    with calls(till.aws.runtime.sqs) as made:
        answers = [warm({"Records": [message]}, FakeContext()) for message in waiting]
    assert [len(failures(answer)) for answer in answers] == [1, 1]
    assert {key for key, _ in provider.calls} == {provider.calls[0][0]}  # of the first alone
    tried, untried = read()
    assert values(tried)[Metric.EFFECTS_NOT_DONE] == [1]
    assert values(untried) == {Metric.RETRIED: [1], Metric.BREAKER_OPEN: [1]}
    assert min(parameters["VisibilityTimeout"] for _, parameters in made) >= 120 * 4 / 2


def test_on_its_last_chance_a_message_is_tried_all_the_same(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider)
    warm = till.consumer.bound_to(till.aws.runtime)
    provider.plan = [NotDone()] * 3
    first, last = (record(json.dumps(note(n)), n, receive_count=r) for n, r in (("a", 3), ("b", 5)))
    assert failures(warm({"Records": [first]}, FakeContext())) == ["a"]
    assert failures(warm({"Records": [last]}, FakeContext())) == []
    assert len(provider.charges) == 1


def test_what_cannot_be_read_is_quarantined_although_the_breaker_is_open(
    start: Start, provider: Provider
) -> None:
    till = start_till(start, provider)
    warm = till.consumer.bound_to(till.aws.runtime)
    provider.plan = [NotDone()] * 3
    waiting = [record(body, body, receive_count=3) for body in (json.dumps(note("a")), "{")]
    answers = [failures(warm({"Records": [message]}, FakeContext())) for message in waiting]
    assert [len(answer) for answer in answers] == [1, 0]
    assert [letter["Body"] for letter in till.aws.dead_letters()] == ["{"]


def test_what_sqs_would_soon_delete_has_its_last_chance(aws: FakeAws) -> None:
    age = Limits.QUEUE_RETENTION_SECONDS - 60 * 60
    message = record(json.dumps(note("fail")), "old")
    message["attributes"]["SentTimestamp"] = str(int((time.time() - age) * 1000))
    consumer = consumer_of(handle)
    assert invoke(aws, consumer, message) == []
    [letter] = aws.dead_letters()
    assert letter["MessageAttributes"]["once-reason"]["StringValue"] == "retries-exhausted"


def test_a_duplicate_is_logged_by_the_hash_of_its_key(aws: FakeAws) -> None:
    log = Log(aws)
    event = note("a", event_id="e")
    aws.deliver(event)
    aws.deliver(event)
    [line] = [line for line in log.lines() if line["message"] == "duplicate"]
    assert len(line["key_hash"]) == 64
    assert line["receive_count"] == 1
