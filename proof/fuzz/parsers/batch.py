"""Batch: `Consumer.bound_to`, with unreadable messages, and faults in every answer of DynamoDB.

Every batch has an answer, which names only messages of this batch. A message that is not named is
committed or dead-lettered.
"""

from random import Random
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.consumer import Runtime
from once.errors import PermanentError
from once.intake.reader import DecodedEvent
from once.names import Record
from once.settings import TableSettings
from proof.fuzz import items, messages, values
from proof.fuzz.aws import KEYS, LOGGER, DeadLetterQueue, DynamoDB
from proof.fuzz.parsers.commit import CANCELED
from proof.fuzz.parsers.intake import CONSUMERS, CONTEXT, READERS, delivered, settings_of
from proof.fuzz.target import expect
from proof.world.clients import NO_METRICS


def consumer_function(name: str, table: Any, queue: Any) -> Any:
    """Return the Lambda function of a consumer, with these clients."""
    consumer = CONSUMERS[name]
    tables = {table: TableSettings(table, (KEYS[table],)) for table in consumer.tables}
    publishes = ("stock.reserved", "stock.refused")
    runtime = Runtime(
        settings=settings_of(consumer, tables=tables, publishes=publishes, commit_threads=1),
        dynamodb=table,
        sqs=queue,
        logger=LOGGER,
        clock=lambda: messages.NOW,
        sleep=lambda _: None,
        metrics=NO_METRICS,
    )
    return consumer.bound_to(runtime)


def check(case: dict[str, Any]) -> None:
    """Deliver a batch, and compare its answer with the table and the dead letters."""
    records = [messages.record(one, f"m-{at}") for at, one in enumerate(case["messages"])]
    table, queue = DynamoDB(case["answers"]), DeadLetterQueue()
    function = consumer_function(case["consumer"], table, queue)
    answer = function({"Records": records}, CONTEXT)
    named = [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]
    expect(len(set(named)) == len(named), "an answer names no message twice")
    ids = {record["messageId"] for record in records}
    expect(set(named) <= ids, "an answer names only messages of its batch")
    for record in records:
        is_named, is_dead = record["messageId"] in named, record["messageId"] in queue.letters
        expect(not (is_named and is_dead), "a dead-lettered message is not retried")
        decoded = delivered(READERS[case["consumer"]], SQSRecord(record)).decoded
        if isinstance(decoded, PermanentError):
            # An open circuit breaker returns messages unread; they are quarantined later.
            waits = is_named and table.has_failed
            expect(is_dead or waits, "an unreadable message is quarantined")
        elif not is_named and not is_dead:
            _check_committed(decoded, table)


def _check_committed(decoded: Any, table: DynamoDB) -> None:
    expect(isinstance(decoded, DecodedEvent), "an acknowledged message was read")
    stored = table.records.get(decoded.identity.pk, {}).get(Record.FINGERPRINT)
    expect(stored == {"S": decoded.identity.fingerprint}, "an acknowledged message is committed")


def draw(rng: Random) -> dict[str, Any]:
    """Return a consumer, a batch with duplicates, and the answers to its transactions."""
    batch = [messages.message(rng) for _ in range(rng.randint(1, 4))]
    batch += rng.choices(batch, k=rng.randint(0, 2))
    answers = [_answer(rng) for _ in range(rng.randint(0, 4))]
    return {"consumer": rng.choice(("orders", "inventory")), "messages": batch, "answers": answers}


def _answer(rng: Random) -> Any:
    pick = rng.random()
    if pick < 0.3:
        return None
    done = rng.random() < 0.5
    if pick < 0.5:
        return {"code": None, "done": done}
    if pick < 0.6:
        return {"code": "InternalServerError", "status": 500, "done": done, "more": {}}
    code = rng.choice((CANCELED, CANCELED, "ThrottlingException", "ValidationException", "Unknown"))
    return {"code": code, "status": 400, "done": False, "more": _reasons(rng)}


def _reasons(rng: Random) -> dict[str, Any]:
    """Return reasons without a failed condition: that would have to show a record of the table."""
    if rng.random() < 0.1:
        return {}
    codes = [code for code in items.CODES if code != items.CONDITION]
    reasons: list[Any] = [{"Code": code} for code in rng.choices(codes, k=5)]
    if rng.random() < 0.3:
        reasons[rng.randrange(5)] = rng.choice((None, {}, values.value(rng)))
    return {"CancellationReasons": reasons}
