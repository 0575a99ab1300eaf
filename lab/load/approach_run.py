"""One approach under load: deploy it, send its messages, wait for rest, and count."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from threading import Event
from typing import Any

from emulator.embedded_aws import EmbeddedAws
from lab.load.deployment import Deployed, deployed
from lab.load.payments import Invocation, Kill, Payments, payments
from lab.load.report import Result, result
from lab.load.traffic import BATCH, TWICE, Batch, Traffic, body_of, send, singles, warm_up
from once.ops.aws.clients import depth
from redelivery import Subject

REST_SECONDS = 120.0
_LOOK_SECONDS = 0.1
"""The longest time between two looks. An invocation is reported just before its messages are
deleted, so that its report alone does not show that they are."""


class Halted(Exception):
    """Another run has failed, or the user has ended the program."""


def wait_for_rest(
    sqs: Any, url: str, changed: Event, halted: Event, *, seconds: float = REST_SECONDS
) -> None:
    """Block until a queue is empty; look when `changed` says that an invocation has ended.

    Raises:
        Halted: `halted` was set.
        TimeoutError: messages are left, and no invocation ended for so many seconds.
    """
    deadline = time.monotonic() + seconds
    while left := depth(sqs, url).total:
        if halted.is_set():
            raise Halted
        if changed.wait(_LOOK_SECONDS):
            changed.clear()
            deadline = time.monotonic() + seconds
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{left} messages are left, and none was processed for {seconds} s")


ORDERS_PER_KILL = 40
WARM_UP = 100
"""Messages before a measurement: more than one batch for each of the five processes."""


@dataclass(frozen=True, slots=True)
class Site:
    """The embedded AWS of all runs; `halted` is set to end those of other threads."""

    aws: EmbeddedAws
    halted: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True)
class Running:
    """A deployed approach with warm processes, and its own payment provider."""

    subject: Subject
    deployed: Deployed
    provider: Payments
    halted: Event

    def process(self, batches: tuple[Batch, ...]) -> list[Invocation]:
        """Send batches, wait until the queue is at rest, and return the invocations.

        Raises:
            TimeoutError: the queue was not at rest in time.
        """
        self.provider.invocations.clear()
        sqs, url = self.deployed.sqs, self.deployed.queue
        send(sqs, url, batches, body_of(self.subject), fifo=self.subject.fifo)
        wait_for_rest(sqs, url, self.provider.changed, self.halted)
        return list(self.provider.invocations)


@contextmanager
def running(site: Site, subject: Subject) -> Iterator[Running]:
    """Deploy an approach and warm its processes up; they have ended after the context.

    Raises:
        TimeoutError: the queue was not at rest in time.
    """
    with payments() as provider, deployed(site.aws, subject, provider.url) as place:
        provider.answer = {name: value for a in subject.answers for name, value in a.body.items()}
        started = Running(subject, place, provider, site.halted)
        started.process(warm_up(WARM_UP))
        yield started


def run_approach(site: Site, subject: Subject, sent: Traffic, *, kills: bool) -> Result:
    """Send traffic through an approach, killing processes or not, and count what it left behind.

    Raises:
        TimeoutError: the queue was not at rest in time.
    """
    with running(site, subject) as place:
        if kills:
            place.provider.kill = place.deployed.kill_client
            place.provider.kill_at = kill_at
        started = time.monotonic()
        for batches in (sent.first, sent.later):
            place.process(batches)
        seconds = time.monotonic() - started
        return result(place.deployed, subject, place.provider, sent, seconds)


def kill_at(order: str) -> Kill | None:
    """Return when the process that charges an order is killed: of a few, before or after it."""
    kind, _, number = order.rpartition("-")
    turn, rest = divmod(int(number), ORDERS_PER_KILL)
    if rest:
        return None
    # The two kinds of orders begin with another moment, so that a short run has both.
    return Kill.AFTER if (turn + (kind == TWICE)) % 2 else Kill.BEFORE


ROUNDS = 16


def overhead(site: Site, subject: Subject, bare: Running, rounds: int = ROUNDS) -> float:
    """Return the ratio of an approach's duration and that of `bare`, which has no idempotency.

    Both are deployed side by side and take turns: a round is one batch of each, and the one that
    begins alternates. The result is the median of the rounds' ratios: other work of the machine
    affects both parts of a ratio. One process works at a time, so that processes do not wait for
    each other, as they do not on Lambda.

    Raises:
        TimeoutError: a queue was not at rest in time.
    """
    ratios = []
    with running(site, subject) as own:
        for n in range(rounds):
            batches = singles(n * BATCH, BATCH)
            turns = (own, bare) if n % 2 else (bare, own)
            ms = {id(turn): _ms(turn.process(batches)) for turn in turns}
            ratios.append(ms[id(own)] / ms[id(bare)])
    return median(ratios)


def _ms(invocations: Sequence[Invocation]) -> float:
    """Return the mean duration for a message, of processes that are warm."""
    warm = [each for each in invocations if each.is_warm]
    return sum(each.ms for each in warm) / sum(each.messages for each in warm)
