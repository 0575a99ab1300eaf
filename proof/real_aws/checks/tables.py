"""Checks of DynamoDB: transaction conflicts, and writes outside a transaction."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from once.names import Metric
from once.testing import cloud_event
from proof.real_aws.check import FAILED, NOT_OBSERVED, PASSED, Check, Seen, Target, verdict

HOT_EVENTS = 300
_LOOKS = 6
REFUSED = {"PutItem", "UpdateItem", "DeleteItem"}
FOREIGN = "another consumer's record"
DENIED = ("AccessDeniedException", "AccessDenied")


@partial(
    Check,
    "transaction-conflicts",
    "parallel commits to one item conflict (TransactionConflict), and each event counts once",
    600,
    if_not="lower group_size= and max_concurrency=, and report it",
)
def conflicts(target: Target) -> Iterator[Seen]:
    # Each event has an id of its own, and all add to one counter.
    bodies = [json.loads(target.asked("hot")) for _ in range(HOT_EVENTS)]
    target.publish([json.dumps(one | {"id": f"{one['id']}-{n}"}) for n, one in enumerate(bodies)])
    while (amount := target.amount("hot")) < HOT_EVENTS:
        yield Seen(f"{amount} of {HOT_EVENTS} counted")
    yield from target.emptied()
    amount = target.amount("hot")
    if amount != HOT_EVENTS:
        yield Seen(f"{HOT_EVENTS} events counted {amount} times", FAILED)
    for _ in range(_LOOKS):  # lines arrive in the log some seconds late
        if found := logged(target, "counter", Metric.CONFLICTS):
            yield Seen(
                f"{found:g} attempts conflicted; {HOT_EVENTS} events counted once each", PASSED
            )
        yield Seen("no conflict is in the log yet", at_deadline=NOT_OBSERVED)
    yield Seen(f"{HOT_EVENTS} events counted once each; no attempt conflicted", NOT_OBSERVED)


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


@partial(
    Check,
    "leading-keys",
    "inside a transaction IAM has dynamodb:LeadingKeys: a consumer commits with its own dedup "
    "record, and is refused one of another consumer",
    300,
    if_not="if nothing commits, take the condition `Null` out of `_own_records` in "
    "once/cdk/permissions.py; if another's record is writable, consumers of one service "
    "must trust each other. Report either",
    is_decisive=True,
)
def leading_keys(target: Target) -> Iterator[Seen]:
    # Directly into the queue: subscriptions may not deliver yet.
    url = target.parts.consumer("counter").queue_url
    body = target.asked("direct", writes_directly=True)
    target.client("sqs").send_message(QueueUrl=url, MessageBody=body)
    yield from _committed(target)
    answer = _answers(target)[FOREIGN]
    text = f"the consumer committed; {FOREIGN}, in a transaction: {answer}"
    if target.local and answer not in DENIED:
        yield Seen(f"{text}; an embedded AWS has no dynamodb:LeadingKeys", NOT_OBSERVED)
    yield verdict(answer in DENIED, text)


def _committed(target: Target) -> Iterator[Seen]:
    while not target.item("counters", "direct"):
        yield Seen("the consumer has not committed its first event")


def _answers(target: Target) -> dict[str, str]:
    answers: dict[str, str] = json.loads(target.item("counters", "direct")["answers"]["S"])
    return answers


@partial(
    Check,
    "item-attributes",
    "IAM has dynamodb:Attributes for a put outside a transaction: with group_size=1 a put with a "
    "dedup record on the item succeeds, and one without is refused",
    300,
    if_not="use item dedup with group_size=2 or more: its writes are transactions",
)
def item_attributes(target: Target) -> Iterator[Seen]:
    data = {"id": target.id("unrecorded")}
    event = cloud_event("verify.put", data, event_id=target.id("unrecorded"), source="/verify")
    target.publish([json.dumps(event)], "verify.put")
    while not (item := target.item("puts", "unrecorded")):
        yield Seen("the item with its dedup record is not written yet")
    text = f"a put with its dedup record succeeded; one without: {item['answer']['S']}"
    if target.local:
        yield Seen(f"{text}; an embedded AWS has no dynamodb:Attributes for writes", NOT_OBSERVED)
    yield verdict(item["answer"]["S"] in DENIED, text)


@partial(
    Check,
    "enclosing-operation",
    "the function's role may write inside TransactWriteItems, and is refused PutItem, UpdateItem "
    "and DeleteItem outside it",
    300,
    if_not="the role does not stop a handler's own writes: review handlers for them, and report it",
)
def enclosing_operation(target: Target) -> Iterator[Seen]:
    yield from _committed(target)
    answers = _answers(target)
    refused = {name for name in REFUSED if answers[name] in DENIED}
    left = target.item("counters", "direct-direct")
    holds = refused == REFUSED and not left
    text = f"outside a transaction: {answers}; the commit inside one succeeded"
    yield Seen(text, PASSED) if holds else verdict(False, f"{text}; item written: {bool(left)}")
