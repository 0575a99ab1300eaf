"""One approach under load: deploy it, send its messages, wait for rest, and count."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from emulator.embedded_aws import EmbeddedAws
from lab.load.deployment import Deployed, deployed
from lab.load.payments import Invocation, Kill, Payments, payments
from lab.load.rest import wait_for_rest
from lab.load.result import Result, result
from lab.load.traffic import TWICE, Batch, Traffic, body_of, send, warm_up
from redelivery import Subject

ORDERS_PER_KILL = 40
WARM_UP = 100
"""Messages before a measurement: more than one batch for each of the five processes."""


@dataclass(frozen=True, slots=True)
class Site:
    """The place of all runs.

    Attributes:
        aws: an embedded AWS.
        halted: set to end the runs of other threads.
    """

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
    """Send traffic through an approach, and count what it has left behind.

    Args:
        site: where to run it.
        subject: the approach.
        sent: the traffic.
        kills: whether function processes are killed meanwhile.

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
