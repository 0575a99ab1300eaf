"""Checks of queues and topics: an audit, concurrency, redrive tasks, FIFO topics."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from demo.audit import undelivered_events
from once.ops.aws.clients import total_depth
from proof.real_aws.check import FAILED, NOT_OBSERVED, PASSED, Check, Seen, Target, verdict

EVENTS = 60
PROBES = 10
"""Events of one round: a new subscription or filter may drop some for up to 15 minutes."""
_LOOKS = 12
LATE = 20
"""Events that are sent a third time, after they were processed."""
CONFLICTS = MALFORMED = 3
MESSAGES = 2 * EVENTS + LATE + CONFLICTS + MALFORMED
DEAD_LETTERS = {"key-conflict": CONFLICTS, "unparseable": MALFORMED}


@partial(
    Check,
    "subscriptions",
    "new subscriptions deliver: within 20 minutes a whole round of probe events arrives at both "
    "consumers. No other check counts events before",
    1200,
    if_not="look at the unrouted queue and at the metric NumberOfNotificationsFailed of the topics",
    is_decisive=True,
)
def subscriptions(target: Target) -> Iterator[Seen]:
    sent = 0
    while True:
        names = [f"probe-{sent + n}" for n in range(PROBES)]
        sent += PROBES
        target.publish([target.asked(name, publishes=True) for name in names])
        for _ in range(_LOOKS):
            arrived = sum(target.amounts(names, "followers").values())
            if arrived == PROBES:
                yield Seen(
                    f"of {sent} probe events, the last {PROBES} arrived at both consumers", PASSED
                )
            yield Seen(f"{arrived} of the last {PROBES} probe events arrived, {sent} sent")


@partial(
    Check,
    "audit",
    "each event counts once at each consumer; each conflict and each malformed body is a dead "
    "letter, and no other message is",
    600,
    if_not="do not use this version: report it with reports/verify.json",
)
def audit(target: Target) -> Iterator[Seen]:
    names = [f"audit-{n}" for n in range(EVENTS)]
    bodies = [target.asked(name, publishes=True) for name in names]
    target.publish([body for body in bodies for _ in range(2)])
    yield from _until_at_rest(target)
    other = [target.asked(name, publishes=True, note="other") for name in names[:CONFLICTS]]
    target.publish([*bodies[:LATE], *other, *("{" * n for n in range(1, MALFORMED + 1))])
    yield Seen("late duplicates, conflicts and malformed bodies were sent")
    yield from _until_at_rest(target)
    while (dead_letters := _dead_letters(target)) < sum(DEAD_LETTERS.values()):
        yield Seen(f"{dead_letters} dead letters")
    evidence = target.evidence()
    urls = evidence.dead_letters.values()
    # Each queue is read until a wait finds no dead letter.
    with ThreadPoolExecutor(len(urls)) as pool:
        found = [*pool.map(lambda url: [*evidence.messages(url)], urls)]
    attributes = (
        dead_letter.get("MessageAttributes", {})
        for dead_letters in found
        for dead_letter in dead_letters
    )
    reasons = Counter(each.get("once-reason", {}).get("StringValue", "none") for each in attributes)
    counted = [*target.amounts(names).values(), *target.amounts(names, "followers").values()]
    lost, doubled = counted.count(0), sum(amount > 1 for amount in counted)
    text = (
        f"{MESSAGES} messages, {EVENTS} events at two consumers: {lost} lost, {doubled} counted "
        f"twice; dead letters: {dict(reasons)}"
    )
    yield verdict(not lost and not doubled and dict(reasons) == DEAD_LETTERS, text)


def _until_at_rest(target: Target) -> Iterator[Seen]:
    """Wait until queues are empty and events delivered, at two looks: depths are approximate."""
    for _ in range(2):
        while left := (
            target.messages_left("counter", "follower") + undelivered_events(target.evidence())
        ):
            yield Seen(f"{left} messages and events are under way")
        yield Seen("nothing is under way")


def _dead_letters(target: Target) -> int:
    return total_depth(target.client("sqs"), target.evidence().dead_letters.values()).total


@partial(
    Check,
    "redrive-task",
    "StartMessageMoveTask moves dead letters to the consumer's queue, where a committed event is a "
    "duplicate; the redrive allow policy lets no other queue use the dead-letter queue",
    300,
    if_not="use `once dlq redrive`, which does not use the task",
)
def redrive_task(target: Target) -> Iterator[Seen]:
    consumer, sqs = target.parts.consumer("counter"), target.client("sqs")
    dead_letters, queue = target.arn(consumer.dead_letter_url), target.arn(consumer.queue_url)
    name = target.id("redriven")
    target.publish([target.asked("redriven")])
    while target.amount("redriven") < 1:
        yield Seen("the event is not counted yet")
    sqs.send_message(QueueUrl=consumer.dead_letter_url, MessageBody=target.asked("redriven"))
    sqs.start_message_move_task(SourceArn=dead_letters, DestinationArn=queue)
    task: dict[str, Any] = {"Status": "RUNNING"}
    while task["Status"] in ("RUNNING", "CANCELLING"):
        [task, *_] = sqs.list_message_move_tasks(SourceArn=dead_letters)["Results"]
        yield Seen(f"task {task}")
    yield from target.emptied()
    moved, amount = task.get("ApproximateNumberOfMessagesMoved", 0), target.amount("redriven")
    if task["Status"] != "COMPLETED" or not moved or amount != 1:
        yield Seen(f"task {task}; the moved event {name} counted {amount} times", FAILED)
    yield _stranger(
        target, dead_letters, f"{moved} dead letters moved, the event still counted once"
    )


def _stranger(target: Target, dead_letters: str, text: str) -> Seen:
    """Let another queue name the dead-letter queue, which its redrive allow policy refuses."""
    sqs, prefix = target.client("sqs"), target.parts.service
    url, other = (
        sqs.create_queue(QueueName=f"{prefix}-{name}")["QueueUrl"]
        for name in ("stranger", "stranger-dead-letters")
    )
    try:
        _use(sqs, url, target.arn(other))  # so that the second refusal is that of the policy
        _use(sqs, url, dead_letters)
    except ClientError as error:
        used = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
        control = "stranger-dead-letters" in json.dumps(used.get("Attributes", {}))
        code = error.response["Error"]["Code"]
        return verdict(
            control, f"{text}; another queue: {code}, with its own dead letters: {control}"
        )
    finally:
        for each in (url, other):
            sqs.delete_queue(QueueUrl=each)
    return Seen(f"{text}; but another queue may use the dead-letter queue", FAILED)


def _use(sqs: Any, url: str, dead_letters: str) -> None:
    policy = json.dumps({"deadLetterTargetArn": dead_letters, "maxReceiveCount": 5})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})


@partial(
    Check,
    "fifo-letters",
    "a standard queue may be the dead-letter queue of a standard queue's subscription to a FIFO "
    "topic, and gets what cannot be delivered",
    300,
    if_not="deploy services with FIFO consumers with -c fifo_topic_dead_letters=false",
)
def fifo_dead_letters(target: Target) -> Iterator[Seen]:
    sqs, sns, prefix = target.client("sqs"), target.client("sns"), target.parts.service
    queue, dead_letters = (
        sqs.create_queue(QueueName=f"{prefix}-{name}")["QueueUrl"]
        for name in ("undeliverable", "undeliverable-letters")
    )
    fifo = {"FifoTopic": "true"}
    topic = sns.create_topic(Name=f"{prefix}-undeliverable.fifo", Attributes=fifo)["TopicArn"]
    own = {"ArnEquals": {"aws:SourceArn": topic}}
    allowed = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Condition": own}
    statement = allowed | {"Action": "sqs:SendMessage", "Resource": target.arn(dead_letters)}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=dead_letters, Attributes={"Policy": policy})
    redrive = json.dumps({"deadLetterTargetArn": target.arn(dead_letters)})
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=target.arn(queue),
        Attributes={"RedrivePolicy": redrive},
    )
    sent = 0
    while not (found := total_depth(sqs, [dead_letters]).total):
        # The queue has no policy: SNS is denied, does not repeat, and sends to the dead letters.
        sent += 1
        sns.publish(
            TopicArn=topic,
            Message="{}",
            MessageGroupId="one",
            MessageDeduplicationId=str(sent),
        )
        text = f"subscribed; {sent} messages that cannot be delivered, no dead letter yet"
        if target.local:
            yield Seen(f"{text}; an embedded AWS needs no queue policy to deliver", NOT_OBSERVED)
        yield Seen(text)
    yield Seen(
        f"subscribed; {found} dead letters of {sent} messages that could not be delivered", PASSED
    )
