"""Audit: every event counts once at each consumer, and every dead letter is explained."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from demo.audit import undelivered_events
from once.ops.aws.clients import total_depth
from proof.real_aws.checks.check import Check, Seen, passed, verdict, waiting
from proof.real_aws.target import Target

EVENTS = 60
PROBES = 10
"""Events of one round: a new subscription or filter may drop some for up to 15 minutes."""
_LOOKS = 12
LATE = 20
"""Events that are sent a third time, after they were processed."""
CONFLICTS = MALFORMED = 3
MESSAGES = 2 * EVENTS + LATE + CONFLICTS + MALFORMED
LETTERS = {"key-conflict": CONFLICTS, "unparseable": MALFORMED}


def _subscriptions(target: Target) -> Iterator[Seen]:
    sent = 0
    while True:
        names = [f"probe-{sent + n}" for n in range(PROBES)]
        sent += PROBES
        target.publish([target.asked(name, publishes=True) for name in names])
        for _ in range(_LOOKS):
            arrived = sum(target.amounts(names, "followers").values())
            if arrived == PROBES:
                yield passed(f"of {sent} probe events, the last {PROBES} arrived at both consumers")
            yield waiting(f"{arrived} of the last {PROBES} probe events arrived, {sent} sent")


def _audit(target: Target) -> Iterator[Seen]:
    names = [f"audit-{n}" for n in range(EVENTS)]
    bodies = [target.asked(name, publishes=True) for name in names]
    target.publish([body for body in bodies for _ in range(2)])
    yield from _until_at_rest(target)
    other = [target.asked(name, publishes=True, note="other") for name in names[:CONFLICTS]]
    target.publish([*bodies[:LATE], *other, *("{" * n for n in range(1, MALFORMED + 1))])
    yield waiting("late duplicates, conflicts and malformed bodies were sent")
    yield from _until_at_rest(target)
    while (letters := _letters(target)) < sum(LETTERS.values()):
        yield waiting(f"{letters} dead letters")
    yield _findings(target, names, _reasons(target))


def _until_at_rest(target: Target) -> Iterator[Seen]:
    """Wait until queues are empty and events delivered, at two looks: depths are approximate."""
    for _ in range(2):
        while left := _left(target):
            yield waiting(f"{left} messages and events are under way")
        yield waiting("nothing is under way")


def _left(target: Target) -> int:
    return target.messages_left("counter", "follower") + undelivered_events(target.evidence())


def _letters(target: Target) -> int:
    return total_depth(target.client("sqs"), target.evidence().dead_letters.values()).total


def _reasons(target: Target) -> Counter[str]:
    evidence = target.evidence()
    urls = evidence.dead_letters.values()
    with ThreadPoolExecutor(len(urls)) as pool:  # each queue is read until a wait finds no letter
        found = [*pool.map(lambda url: [*evidence.messages(url)], urls)]
    attributes = (letter.get("MessageAttributes", {}) for letters in found for letter in letters)
    return Counter(each.get("once-reason", {}).get("StringValue", "none") for each in attributes)


def _findings(target: Target, names: list[str], letters: Counter[str]) -> Seen:
    counted = [*target.amounts(names).values(), *target.amounts(names, "followers").values()]
    lost = sum(amount == 0 for amount in counted)
    doubled = sum(amount > 1 for amount in counted)
    text = (
        f"{MESSAGES} messages, {EVENTS} events at two consumers: {lost} lost, {doubled} counted "
        f"twice; dead letters: {dict(letters)}"
    )
    return verdict(not lost and not doubled and dict(letters) == LETTERS, text)


SUBSCRIPTIONS = Check(
    "subscriptions",
    "new subscriptions deliver: within 20 minutes a whole round of probe events arrives at both "
    "consumers. No other check counts events before",
    1200,
    _subscriptions,
    if_not="look at the unrouted queue and at the metric NumberOfNotificationsFailed of the topics",
    is_decisive=True,
)
AUDIT = Check(
    "audit",
    "each event counts once at each consumer; each conflict and each malformed body is a dead "
    "letter, and no other message is",
    600,
    _audit,
    if_not="do not use this version: report it with reports/verify.json",
)
