"""Results: orders that were charged twice or got lost, dead letters, durations."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from boto3.dynamodb.types import TypeDeserializer

from lab.load.deployment import Deployed
from lab.load.payments import Payments
from lab.load.traffic import Traffic, order_in
from redelivery import Subject

ORDER_ID = "order_id"
CHARGE_ID = "charge_id"


@dataclass(frozen=True, slots=True)
class Result:
    """One run of an approach.

    Attributes:
        doubled: number of orders that were charged or stored more than once.
        lost: number of orders without a charge, or not stored with their charge, and without a
            dead letter.
        dead_letters: number of messages in the dead-letter queue.
        kills: number of killed processes.
        seconds: time from the first send until the queue is at rest.
    """

    doubled: int
    lost: int
    dead_letters: int
    kills: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.doubled} doubled, {self.lost} lost, {self.dead_letters} dead-lettered"
            f" in {self.seconds:.0f} s"
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """All that a load run has found.

    Attributes:
        sent: the traffic of each run.
        load: results by approach.
        killed: results of runs with kills.
        ratios: duration of the handler, divided by its duration without idempotency.
        not_run: approaches that cannot run on this machine, with the reason.
    """

    sent: Traffic
    load: dict[str, Result] = field(default_factory=dict)
    killed: dict[str, Result] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)

    def is_clean(self, name: str) -> bool:
        """Return whether no run of an approach has doubled or lost an order."""
        found = [results[name] for results in (self.load, self.killed) if name in results]
        return not any(each.doubled or each.lost for each in found)


def result(
    deployed: Deployed, subject: Subject, payments: Payments, sent: Traffic, seconds: float
) -> Result:
    """Count what a run at rest has left behind."""
    stored = Counter(str(row[ORDER_ID]) for row in _rows(deployed, subject) if row.get(CHARGE_ID))
    letters = _dead_letters(deployed)
    charges = payments.charges
    return Result(
        doubled=sum(charges[order] > 1 or stored[order] > 1 for order in sent.orders),
        lost=len(lost(sent.orders, charges, stored, letters)),
        dead_letters=len(letters),
        kills=payments.kills,
        seconds=seconds,
    )


def lost(
    orders: Iterable[str],
    charges: Mapping[str, int],
    stored: Mapping[str, int],
    letters: Collection[str],
) -> list[str]:
    """Return the orders that are not complete, and of which no dead letter is left."""
    return [
        order
        for order in orders
        if not (charges.get(order) and stored.get(order)) and order not in letters
    ]


def _rows(deployed: Deployed, subject: Subject) -> Iterable[Mapping[str, Any]]:
    """Yield the stored orders, of whichever store the approach uses."""
    read = TypeDeserializer().deserialize
    scan = deployed.aws.client("dynamodb").get_paginator("scan")
    for table in subject.tables:
        if table.is_state:
            for page in scan.paginate(TableName=table.name, ConsistentRead=True):
                yield from ({k: read(v) for k, v in item.items()} for item in page["Items"])
    for store in subject.stores:
        yield from (row for row in store.items() if ORDER_ID in row)


def _dead_letters(deployed: Deployed) -> list[str]:
    """Take the dead letters out of their queue; return their orders."""
    sqs, url = deployed.sqs, deployed.dead_letters
    found: list[str] = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            found.append(order_in(message["Body"]))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found
