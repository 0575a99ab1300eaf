"""Sixteen threads against real, isolated transactions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)

from once.testing import FakeContext
from tests.integration.probe import Bench, event

THREADS = 16


def test_every_event_is_delivered_to_every_thread_and_counted_once(bench: Bench) -> None:
    events = [[event("added", f"counter-{n % 3}")] for n in range(20)]
    bench.deliver_in_parallel([events[n:] + events[:n] for n in range(THREADS)])
    assert sum(bench.amount(f"counter-{n}") for n in range(3)) == 20
    assert bench.outcomes() == ["accepted"] * 20


def test_two_contents_under_one_key_commit_one_and_quarantine_the_other(bench: Bench) -> None:
    first, second = (event("added", "visits", by=by, event_id="e-1") for by in (3, 5))
    bench.deliver_in_parallel([[[first]], [[second]]] * (THREADS // 2))
    assert bench.amount("visits") in (3, 5)
    assert bench.outcomes() == ["accepted"]
    assert bench.reasons() == ["key-conflict"] * (THREADS // 2)


def test_the_last_five_pieces_go_to_five_of_sixteen(bench: Bench) -> None:
    bench.put("tickets", 5)
    bench.deliver_in_parallel([[[event("taken", "tickets")]] for _ in range(THREADS)])
    assert bench.amount("tickets") == 0
    assert bench.outcomes() == ["accepted"] * 5 + ["refused"] * 11


def test_no_update_is_lost_where_sixteen_read_before_they_write(bench: Bench) -> None:
    events = [[[event("read.and.written", "balance")] for _ in range(3)] for _ in range(THREADS)]
    bench.deliver_in_parallel(events)
    assert bench.amount("balance") == 3 * THREADS
    assert bench.outcomes() == ["accepted"] * 3 * THREADS


def former_function(bench: Bench) -> Callable[..., None]:
    """The function that the consumer replaces, with Powertools' records."""

    def process(event: dict[str, Any]) -> None:
        bench.dynamodb.update_item(
            TableName=bench.counters,
            Key={"id": {"S": event["data"]["counter"]}},
            UpdateExpression="ADD amount :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    config = IdempotencyConfig(event_key_jmespath="id")
    config.register_lambda_context(FakeContext(60_000))  # type: ignore[arg-type]
    store = DynamoDBPersistenceLayer(bench.counters, boto3_client=bench.dynamodb)
    idempotent: Callable[..., None] = idempotent_function(
        process,
        data_keyword_argument="event",
        config=config,
        persistence_store=store,
        key_prefix="probe",
    )
    return idempotent


def _moved(number: int) -> list[Any]:
    return [event("moved", f"counter-{n}") for n in range(number)]


def test_the_former_function_and_once_race_for_each_event(bench: Bench) -> None:
    former = former_function(bench)

    def to_former(event: Any) -> None:
        while True:
            try:
                return former(event=event)
            except (IdempotencyAlreadyInProgressError, IdempotencyPersistenceLayerError):
                continue

    def to_once(event: Any) -> None:
        while bench.deliver(event):
            pass

    orders = ((to_once, to_former), (to_former, to_once))
    work = [(to, event) for n, event in enumerate(_moved(40)) for to in orders[n % 2]]
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [pool.submit(to, event) for to, event in work]
    assert [job.result() for job in jobs] == [None] * len(jobs)
    assert [bench.amount(f"counter-{n}") for n in range(40)] == [1] * 40
    assert bench.reasons() == []
    assert 0 < len(bench.outcomes()) < 40, "both were first with some"
