"""Checks of DynamoDB: transaction conflicts, expiry, and writes outside a transaction."""

import json
import time
from collections.abc import Iterator
from typing import Any

from once.metric_names import Metric
from once.schema import Record
from proof.real_aws.checks.check import (
    Check,
    Result,
    Seen,
    failed,
    not_observed,
    passed,
    verdict,
    waiting,
)
from proof.real_aws.target import Target

HOT_EVENTS = 300
_DAY_SECONDS = 24 * 60 * 60
_LOOKS = 6
REFUSED = {"PutItem", "UpdateItem", "DeleteItem"}


def _conflicts(target: Target) -> Iterator[Seen]:
    # Each event has an id of its own, and all add to one counter.
    bodies = [json.loads(target.asked("hot")) for _ in range(HOT_EVENTS)]
    target.publish([json.dumps(one | {"id": f"{one['id']}-{n}"}) for n, one in enumerate(bodies)])
    while (amount := target.amount("hot")) < HOT_EVENTS:
        yield waiting(f"{amount} of {HOT_EVENTS} counted")
    while left := target.messages_left("counter"):
        yield waiting(f"{left} messages left")
    amount = target.amount("hot")
    if amount != HOT_EVENTS:
        yield failed(f"{HOT_EVENTS} events counted {amount} times")
    yield from _logged_conflicts(target)


def _logged_conflicts(target: Target) -> Iterator[Seen]:
    """Look for conflicts in the log, whose lines arrive some seconds late."""
    for _ in range(_LOOKS):
        if found := logged(target, "counter", Metric.CONFLICTS):
            yield passed(f"{found:g} attempts conflicted; {HOT_EVENTS} events counted once each")
        yield waiting("no conflict is in the log yet", at_deadline=Result.NOT_OBSERVED)
    yield not_observed(f"{HOT_EVENTS} events counted once each; no attempt conflicted")


def logged(target: Target, consumer: str, metric: str) -> float:
    """Return the sum of a metric in the log of a consumer's function, since the run began."""
    pages = target.client("logs").get_paginator("filter_log_events")
    found = pages.paginate(
        logGroupName=f"/aws/lambda/{target.parts.consumer(consumer).function_name}",
        startTime=int(target.started.timestamp() * 1000),
    )
    return sum(_value(event["message"], metric) for page in found for event in page["events"])


def _value(line: str, metric: str) -> float:
    try:
        value: Any = json.loads(line[line.index("{") :]).get(metric, 0)
    except (ValueError, AttributeError):  # another line than those with metrics
        return 0.0
    return float(sum(value)) if isinstance(value, list) else float(value)


def _ttl(target: Target) -> Iterator[Seen]:
    table = target.parts.dedup_table
    found = target.client("dynamodb").describe_time_to_live(TableName=table)
    described = found["TimeToLiveDescription"]
    text = f"TTL of {table}: {described}"
    if described == {"TimeToLiveStatus": "ENABLED", "AttributeName": Record.EXPIRES_AT}:
        yield passed(text)
    elif target.local:
        yield not_observed(f"{text}; an embedded AWS does not apply a template's TTL")
    else:
        enabling = described.get("TimeToLiveStatus") == "ENABLING"  # for up to an hour
        yield waiting(text, at_deadline=Result.NOT_OBSERVED if enabling else Result.FAILED)
        yield from _ttl(target)


def _expiry(target: Target) -> Iterator[Seen]:
    table, dynamodb = target.parts.dedup_table, target.client("dynamodb")
    yield from _counted(target, "expiring", 1)
    key = {Record.PK: {"S": dedup_key(target, "expiring")}}
    dynamodb.update_item(
        TableName=table,
        Key=key,
        UpdateExpression="SET #at = :past",
        ConditionExpression="attribute_exists(#pk)",
        ExpressionAttributeNames={"#at": Record.EXPIRES_AT, "#pk": Record.PK},
        ExpressionAttributeValues={":past": {"N": str(int(time.time()) - _DAY_SECONDS)}},
    )
    there = "Item" in dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)
    yield from _counted(target, "expiring", 2)
    yield from _once_more(target, there)


def _once_more(target: Target, there: bool) -> Iterator[Seen]:
    """Send it a third time, inside the new record's window."""
    target.publish([target.asked("expiring")])
    yield waiting("sent again inside the window")
    while left := target.messages_left("counter"):
        yield waiting(f"{left} messages left")
    amount = target.amount("expiring")
    text = f"counted {amount} times in three deliveries, of which the second was after the expiry"
    if there:
        yield verdict(amount == 2, text)
    yield not_observed(f"{text}; but TTL deleted the expired record before")


def _counted(target: Target, name: str, expected: int) -> Iterator[Seen]:
    target.publish([target.asked(name)])
    while (amount := target.amount(name)) < expected:
        yield waiting(f"counted {amount} of {expected} times")


def dedup_key(target: Target, name: str) -> str:
    """Return the dedup key of an event at the consumer `counter`.

    Raises:
        LookupError: no record is of this event.
    """
    for record in target.evidence().items("dedup"):
        if record[Record.PK]["S"].startswith("counter#") and target.id(name) in record["pk"]["S"]:
            return str(record["pk"]["S"])
    raise LookupError(f"no dedup record of {name}")


def _enclosing(target: Target) -> Iterator[Seen]:
    target.publish([target.asked("direct", writes_directly=True)])
    while not (item := target.item("counters", "direct")):
        yield waiting("the event is not committed yet")
    answers = json.loads(item["answers"]["S"])
    refused = {name for name, answer in answers.items() if answer == "AccessDeniedException"}
    left = target.item("counters", "direct-direct")
    holds = refused == REFUSED and not left
    text = f"outside a transaction: {answers}; the commit inside one succeeded"
    yield passed(text) if holds else verdict(False, f"{text}; item written: {bool(left)}")


CONFLICTS = Check(
    "transaction-conflicts",
    "parallel commits to one item conflict (TransactionConflict), and each event counts once",
    600,
    _conflicts,
)
TTL = Check(
    "ttl",
    "TTL is enabled on the dedup table. That DynamoDB deletes takes days and is not waited for",
    120,
    _ttl,
)
EXPIRY = Check(
    "expiry",
    "an expired record that is still there no longer counts as a duplicate, and the new one does",
    300,
    _expiry,
)
ENCLOSING_OPERATION = Check(
    "enclosing-operation",
    "the function's role may write inside TransactWriteItems, and is refused PutItem, UpdateItem "
    "and DeleteItem outside it",
    300,
    _enclosing,
)
