"""The audit: what happened, read from tables and queues by code that shares none with the library.

It imports nothing of this project. Attribute names are spelt out again on purpose: an audit that
asked the library what a dedup record looks like would agree with it about anything.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = Mapping[str, Any]
"""What was sent: the file that `python -m ops send --manifest` writes."""

AUDITED = ("orders", "inventory")
"""Consumers that get everything that is sent. What others dead-letter must be explained as well."""

WAIT_SECONDS = 1
"""A queue on AWS may keep silent when asked without a wait, and hold messages all the same."""

BAD_REASONS = ("unparseable", "invalid-event", "invalid-data", "no-key", "too-large")


@dataclass(frozen=True)
class Place:
    """Where to look: boto3 clients, tables by logical name, queue URLs by consumer."""

    dynamodb: Any
    sqs: Any
    logs: Any
    tables: Mapping[str, str]
    dead_letters: Mapping[str, str]
    log_groups: Mapping[str, str]


@dataclass
class Findings:
    """The audit's result. Lost = accepted - effects - quarantined; doubled = what is over one."""

    sent: int
    distinct: int
    deliveries: int = 0
    orders_stored: int = 0
    stock_moved: int = 0
    effects: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    balance_error: int = 0
    unexplained_dead_letters: int = 0
    quarantined_by_reason: Counter[str] = field(default_factory=Counter)

    @property
    def quarantined(self) -> int:
        """How many messages were quarantined, each counted once for each consumer."""
        return self.quarantined_by_reason.total()

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, nothing doubled, and every dead letter says why it is there."""
        faults = (self.lost, self.doubled, self.balance_error, self.unexplained_dead_letters)
        return self.effects > 0 and not any(faults)

    def count(self, found: int, expected: int = 1) -> None:
        """Count one effect that should have happened `expected` times."""
        self.effects += min(found, expected)
        self.lost += max(0, expected - found)
        self.doubled += max(0, found - expected)


def audit(manifest: Manifest, place: Place) -> Findings:
    """Compare what was sent with what the tables and the dead-letter queues hold."""
    orders = manifest["orders"]
    findings = Findings(sent=manifest["sent"], distinct=len(orders))
    _audit_orders(orders, place, findings)
    _audit_stock(manifest, place, findings)
    for consumer, url in place.dead_letters.items():
        _audit_dead_letters(manifest, consumer, list(_messages(place.sqs, url)), findings)
    findings.deliveries = sum(_delivered(place.logs, name) for name in place.log_groups.values())
    return findings


def _audit_orders(orders: list[Any], place: Place, findings: Findings) -> None:
    """An order that is stored twice looks like one; its customer's account does not."""
    stored = _by_key(place, "orders", "order_id")
    customers = _by_key(place, "customers", "customer_id")
    findings.orders_stored = len(stored)
    for order in orders:
        account = customers.get(order["customer_id"], {})
        times = _number(account, "orders_placed")
        findings.count(times if order["order_id"] in stored else 0)
        findings.balance_error += abs(_number(account, "amount_ordered") - times * order["total"])


def _audit_stock(manifest: Manifest, place: Place, findings: Findings) -> None:
    """Each order has an article of its own, so that its effects can be counted one by one."""
    shelf = _by_key(place, "stock", "sku")
    moved = {
        sku: initial - _number(shelf.get(sku, {}), "available")
        for sku, initial in manifest["stock"].items()
    }
    reservations = _by_key(place, "reservations", "order_id")
    for order in manifest["orders"]:
        status = reservations.get(order["order_id"], {}).get("status", {}).get("S", "")
        _count_reservation(order, status, moved, findings)
    findings.stock_moved = sum(moved.values())
    expected = _expected_moves(manifest["orders"])
    findings.balance_error += sum(abs(moved[sku] - expected[sku]) for sku in moved)


def _count_reservation(
    order: Mapping[str, Any], status: str, moved: Mapping[str, int], findings: Findings
) -> None:
    own = order["lines"][0]
    times = moved[own["sku"]] // own["quantity"]
    findings.refused += status == "refused"
    if order["refused"]:
        findings.count(int(status == "refused"))
        findings.doubled += times
    else:
        findings.count(times if status == "reserved" else 0)


def _expected_moves(orders: list[Any]) -> Counter[str]:
    expected: Counter[str] = Counter()
    for order in orders:
        for line in order["lines"] if not order["refused"] else ():
            expected[line["sku"]] += line["quantity"]
    return expected


def _audit_dead_letters(
    manifest: Manifest, consumer: str, letters: list[Any], findings: Findings
) -> None:
    conflicting = {order["event_id"]: order["conflicts"] for order in manifest["orders"]}
    due = Counter({event_id: count for event_id, count in conflicting.items() if count})
    due.update(manifest["malformed"])
    for letter in letters:
        reason = _attribute(letter, "once-reason")
        name = _name_of(letter["Body"], reason)
        is_explained = name in due and _attribute(letter, "once-consumer") == consumer
        if not is_explained:
            findings.unexplained_dead_letters += 1
        elif due[name] > 0:  # a crash between quarantine and answer may leave a second copy
            due[name] -= 1
            findings.quarantined_by_reason[reason] += 1
    if consumer in AUDITED:
        findings.lost += due.total()


def _name_of(body: str, reason: str) -> str:
    """What the manifest calls a dead letter: a conflict by its event, a bad body by its digest."""
    if reason == "key-conflict":
        return str(json.loads(body)["id"])
    if reason in BAD_REASONS:
        return hashlib.sha256(body.encode()).hexdigest()
    return f"unexplained: {reason}"


def _attribute(letter: Mapping[str, Any], name: str) -> str:
    return str(letter.get("MessageAttributes", {}).get(name, {}).get("StringValue", ""))


def _number(item: Mapping[str, Any], name: str) -> int:
    return int(item.get(name, {"N": "0"})["N"])


def _by_key(place: Place, table: str, key: str) -> dict[str, dict[str, Any]]:
    pages = place.dynamodb.get_paginator("scan").paginate(
        TableName=place.tables[table], ConsistentRead=True
    )
    return {item[key]["S"]: item for page in pages for item in page["Items"]}


def _messages(sqs: Any, url: str) -> Iterator[dict[str, Any]]:
    """Read a queue to its end, and let every message be seen again afterwards."""
    seen = []
    while batch := _receive(sqs, url):
        seen += batch
    for message in seen:
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )
        yield message


def _receive(sqs: Any, url: str) -> list[Any]:
    answer = sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        VisibilityTimeout=120,
        WaitTimeSeconds=WAIT_SECONDS,
    )
    return list(answer.get("Messages", []))


def _delivered(logs: Any, group: str) -> int:
    """Count the messages that the functions say they were handed, from their log lines."""
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
    lines = [event["message"] for page in pages for event in page["events"]]
    return sum(sum(fates.values()) for fates in map(_fates, lines))


def _fates(line: str) -> Mapping[str, int]:
    start = line.find("{")
    try:
        entry = json.loads(line[start:]) if start >= 0 else {}
    except json.JSONDecodeError:
        return {}
    fates: Mapping[str, int] = entry.get("fates", {}) if isinstance(entry, dict) else {}
    return fates
