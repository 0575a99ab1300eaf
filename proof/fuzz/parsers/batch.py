"""`Consumer.bound_to`: a whole batch, some of it unreadable, and DynamoDB out of its mind.

Whatever happens, there is an answer. It names ids of the batch alone, and what it does not name is
in the table or among the dead letters.
"""

from dataclasses import replace
from random import Random
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from functions.inventory.handler import consumer as inventory
from functions.orders.handler import consumer as orders
from once.errors import PermanentError
from once.intake.reader import DecodedEvent, RecordReader
from once.runtime import Runtime
from once.schema import Record
from once.settings import TableSettings
from proof.fuzz import claims, fakes, messages, nasty
from proof.fuzz.parsers.commit import CANCELLED
from proof.fuzz.parsers.intake import settings_of
from proof.fuzz.target import Target, claim

_CONSUMERS = {consumer.name: consumer for consumer in (orders, inventory)}
_SETTINGS = {
    name: replace(
        settings_of(consumer),
        tables={table: TableSettings(table, (fakes.KEYS[table],)) for table in consumer.tables},
        publishes=("stock.reserved", "stock.refused"),
        commit_threads=1,
    )
    for name, consumer in _CONSUMERS.items()
}


def check(case: dict[str, Any]) -> None:
    """Hand a batch to a consumer, and hold its answer against table and dead letters."""
    records = [messages.record(one, f"m-{at}") for at, one in enumerate(case["messages"])]
    table, queues = fakes.Table(case["answers"]), fakes.Queues()
    handle = _CONSUMERS[case["consumer"]].bound_to(_runtime(case["consumer"], table, queues))
    answer = handle({"Records": records}, fakes.CONTEXT)
    named = [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]
    ids = [record["messageId"] for record in records]
    claim(len(set(named)) == len(named), "an answer names nobody twice")
    claim(set(named) <= set(ids), "an answer names ids of its own batch alone")
    for record in records:
        _check_fate(case["consumer"], record, named, table, queues)


def _runtime(name: str, table: Any, queues: Any) -> Runtime:
    return Runtime(
        settings=_SETTINGS[name],
        dynamodb=table,
        sqs=queues,
        logger=fakes.LOGGER,
        clock=lambda: fakes.NOW,
        sleep=lambda _: None,
        metrics=fakes.METRICS,
    )


def _check_fate(
    name: str, record: dict[str, Any], named: list[str], table: fakes.Table, queues: fakes.Queues
) -> None:
    message_id = record["messageId"]
    reader = RecordReader(_SETTINGS[name], _CONSUMERS[name].handlers, lambda: fakes.NOW)
    decoded = reader.read(SQSRecord(record), fakes.DEADLINE).decoded
    buried = message_id in queues.letters
    claim(not (buried and message_id in named), "a message that is buried does not come again")
    if isinstance(decoded, PermanentError):
        # While the breaker is open, nothing is looked at: it comes again, and is quarantined then.
        waits = message_id in named and table.has_failed
        claim(buried or waits, "what can never be read is quarantined")
    elif message_id not in named and not buried:
        claim(isinstance(decoded, DecodedEvent), "what is acknowledged was read")
        _check_committed(decoded, table)


def _check_committed(event: Any, table: fakes.Table) -> None:
    record = table.records.get(event.identity.pk, {})
    claim(
        record.get(Record.FINGERPRINT) == {"S": event.identity.fingerprint},
        "what is acknowledged is committed",
    )


def draw(rng: Random) -> dict[str, Any]:
    """Return a consumer, a batch with duplicates in it, and what its transactions meet."""
    batch = [messages.message(rng) for _ in range(rng.randint(1, 4))]
    batch += rng.choices(batch, k=rng.randint(0, 2))
    answers = [_answer(rng) for _ in range(rng.randint(0, 4))]
    return {"consumer": rng.choice(list(_CONSUMERS)), "messages": batch, "answers": answers}


def _answer(rng: Random) -> Any:
    pick = rng.random()
    if pick < 0.3:
        return None
    if pick < 0.5:
        return {"code": None, "done": rng.random() < 0.5}
    if pick < 0.6:
        return {
            "code": "InternalServerError",
            "status": 500,
            "done": rng.random() < 0.5,
            "more": {},
        }
    code = rng.choice((CANCELLED, CANCELLED, "ThrottlingException", "ValidationException", "Odd"))
    return {"code": code, "status": 400, "done": False, "more": _reasons(rng)}


def _reasons(rng: Random) -> dict[str, Any]:
    """Reasons that show no record: what they were to show would have to be in the table."""
    if rng.random() < 0.1:
        return {}
    codes = rng.choices([code for code in claims.CODES if code != claims.CONDITION], k=5)
    reasons: list[Any] = [{"Code": code} for code in codes]
    if rng.random() < 0.3:
        reasons[rng.randrange(5)] = rng.choice((None, {}, nasty.value(rng)))
    return {"CancellationReasons": reasons}


TARGET = Target("batch", share=2, draw=draw, check=check)
