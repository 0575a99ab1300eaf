"""Deliveries: whole batches of a queue, on the simulated AWS.

A message is committed, dead-lettered, or named in the answer. Faults of calls are what crash points
and seeds try.
"""

import base64
from random import Random
from typing import Any

from once.consumer import Runtime
from once.errors import PermanentError
from once.intake.reader import DecodedEvent
from once.names import DeadLetterAttribute, Limits, Record
from once.settings import TableSettings
from proof.fuzz import messages
from proof.fuzz.reading import CONSUMERS, CONTEXT, LOGGER, READERS, delivered, settings_of
from proof.fuzz.search import expect
from proof.world.calls import Call, connected
from proof.world.clients import NO_METRICS, clients
from proof.world.queues import Queue, Queues
from proof.world.tables import Tables

_KEYS = {
    "orders": "order_id",
    "customers": "customer_id",
    "stock": "sku",
    "reservations": "order_id",
}
"""The key attribute of each table of the shop that is written to."""


class Aws:
    """The tables and queues of `proof.world`.

    Attributes:
        records: the dedup records that were committed, by key.
    """

    def __init__(self) -> None:
        self._tables = Tables({"dedup": Record.PK, **_KEYS}, "dedup", lambda: messages.NOW)
        self._dead_letters = Queue("dead-letters")
        self._queues = Queues(lambda: messages.NOW, {"dead-letters": self._dead_letters})
        self.records = self._tables.items["dedup"]

    @property
    def dead_letters(self) -> dict[str, Any]:
        """The dead letters by the last id of their lineage, each of which SQS would accept."""
        found = {}
        for dead_letter in self._dead_letters.ever:
            _check_dead_letter(dead_letter)
            lineage = dead_letter.attributes[DeadLetterAttribute.LINEAGE]["StringValue"]
            found[lineage.rpartition(",")[2]] = dead_letter
        return found

    def respond(self, call: Call) -> Any:
        """Execute a call."""
        if call.service != "sqs":
            return self._tables.answer(call.operation, call.request)
        if call.operation != "SendMessage":
            return {}  # the answer to Lambda says the same as a deletion or a delay
        return self._queues.answer(call.operation, call.request)


def _check_dead_letter(dead_letter: Any) -> None:
    """Check that SQS accepts a dead letter."""
    texts = [
        dead_letter.body,
        *(each.get("StringValue", "x") for each in dead_letter.attributes.values()),
    ]
    accepted = all(messages.sendable(text) == text for text in texts)
    expect(accepted and len(dead_letter.attributes) <= 10, "SQS accepts a dead letter")
    size = sum(len(text.encode()) for text in texts)
    for name, value in dead_letter.attributes.items():
        size += len(name + value["DataType"]) + len(base64.b64decode(value.get("BinaryValue", "")))
    expect(size <= Limits.MESSAGE_BYTES, "SQS accepts the size of a dead letter")


def handled(consumer_name: str, records: list[Any], aws: Aws) -> Any:
    """Pass records to the Lambda function of a consumer; return its answer."""
    consumer = CONSUMERS[consumer_name]
    tables = {table: TableSettings(table, (_KEYS[table],)) for table in consumer.tables}
    publishes = ("stock.reserved", "stock.refused")
    runtime = Runtime(
        settings=settings_of(consumer, tables=tables, publishes=publishes, commit_threads=1),
        dynamodb=clients().dynamodb,
        sqs=clients().sqs,
        logger=LOGGER,
        clock=lambda: messages.NOW,
        sleep=lambda _: None,
        metrics=NO_METRICS,
    )
    with connected(aws.respond):
        return consumer.bound_to(runtime)({"Records": records}, CONTEXT)


def draw_batch(rng: Random) -> dict[str, Any]:
    """Return a consumer, and a batch with duplicates."""
    batch = [messages.draw(rng) for _ in range(rng.randint(1, 4))]
    batch += [rng.choice(batch) for _ in range(rng.randrange(3))]
    batch = [one | {"messageId": f"m-{at}"} for at, one in enumerate(batch)]
    return {"consumer": rng.choice(("orders", "inventory")), "messages": batch}


def check_batch(case: dict[str, Any]) -> None:
    """Deliver a batch, and compare its answer with the table and the dead letters."""
    records, aws = case["messages"], Aws()
    answer = handled(case["consumer"], records, aws)
    dead_letters = aws.dead_letters
    named = [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]
    expect(len(set(named)) == len(named), "an answer names no message twice")
    ids = {record["messageId"] for record in records}
    expect(set(named) <= ids, "an answer names only messages of its batch")
    for record in records:
        is_named, is_dead = record["messageId"] in named, record["messageId"] in dead_letters
        expect(not (is_named and is_dead), "a dead-lettered message is not retried")
        decoded: Any = delivered(READERS[case["consumer"]], record).decoded
        if isinstance(decoded, PermanentError):
            expect(is_dead, "an unreadable message is quarantined")
        elif not is_named and not is_dead:
            expect(isinstance(decoded, DecodedEvent), "an acknowledged message was read")
            stored = aws.records.get(decoded.identity.pk, {}).get(Record.FINGERPRINT)
            committed = stored == {"S": decoded.identity.fingerprint}
            expect(committed, "an acknowledged message is committed")
