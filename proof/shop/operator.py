"""The operator, with the real command line's own parts.

Sends back what is safe to send, and publishes again what the stream has lost.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

from botocore.exceptions import BotoCoreError, ClientError

from once.ops.aws.deployment import DeployedConsumer, Deployment
from once.ops.dead_letters import redrive as ops_redrive
from once.ops.dead_letters import redrive_safety as safety
from once.ops.dead_letters.letter import dead_letter_queues
from once.ops.dead_letters.queue_walk import QueueWalk
from once.ops.dead_letters.redrive import RateLimiter, Redriver
from once.ops.dead_letters.safe_redrive import SafeRedrive
from once.ops.dedup_records import outbox_scan as records
from once.ops.dedup_records.dedup_table import DedupRecordReader
from once.ops.outbox import republish as ops_republish
from once.ops.outbox.relay_invocation import RelayFailed
from once.outbox.stream_relay import NotRelayed, Relayed
from once.schema import RELAY
from proof.shop.clients import clients
from proof.shop.service import DEDUP, EVENTS, INGRESS, Service, url
from proof.world.tasks import START

_MOST = 1000
_FAST = 1e9
_TIMES = 4


class Operator:
    """Comes a few times where dead letters lie, and where the stream has lost something.

    Args:
        service: the service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._redrives = self._republishes = _TIMES
        self._is_busy = False
        self._losses = 0

    def comes_again(self) -> None:
        """Let the operator come a few times more."""
        self._redrives = self._republishes = _TIMES

    def hears_of_loss(self) -> None:
        """Tell of records that the stream has lost."""
        self._losses += 1

    @property
    def is_due(self) -> bool:
        """Whether there is something to do, and nobody at it."""
        now = self._service.world.tasks.now
        return not self._is_busy and (self._has_lost or self._seen_at <= now)

    @property
    def next_time(self) -> float:
        """When dead letters are seen that are hidden now; infinity where none are."""
        return self._seen_at if self._seen_at > self._service.world.tasks.now else math.inf

    def begin(self) -> Callable[[], None]:
        """Return what is to be done; from now on somebody is at it."""
        self._is_busy = True
        command = self._republish if self._has_lost else self._redrive

        def work() -> None:
            try:
                command()
            finally:
                self._is_busy = False

        return work

    @property
    def _has_lost(self) -> bool:
        return self._losses > 0 and self._republishes > 0

    @property
    def _seen_at(self) -> float:
        """When the first dead letter can be seen that the operator is still to come for."""
        if not self._redrives:
            return math.inf
        places = self._service.places.values()
        letters = [letter for place in places for letter in place.dead_letters.waiting]
        return min((letter.visible_at for letter in letters), default=math.inf)

    def _redrive(self) -> None:
        self._redrives -= 1
        redrive(self._service)

    def _republish(self) -> None:
        self._republishes -= 1
        heard_of = self._losses
        republish(self._service)
        self._losses -= heard_of


def redrive(service: Service) -> None:
    """Send dead letters of all consumers back to their queues, as `once dlq redrive` does.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: AWS refuses, or does not answer.
    """
    assess = partial(safety.assess_letters, DedupRecordReader(clients().dynamodb, DEDUP))
    places = [queue for queue in dead_letter_queues(_deployment(service)) if queue.source_url]
    with QueueWalk(clients().sqs, places, _MOST) as walk:
        redriver = Redriver(clients().sqs, RateLimiter(_FAST), walk.forget)
        job = SafeRedrive(assess, redriver, unsafe=False, edited=False)
        for page in walk.pages():
            job.send(page)


def republish(service: Service) -> None:
    """Publish again what was ever committed, as `outbox republish` does.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: AWS refuses, or does not answer.
        once.ops.errors.OpsError: the relay fails for too long.
    """
    begin = datetime.fromtimestamp(START, UTC)
    choice = records.RecordFilter(since=begin, until=None, consumer=None)
    ops_republish.republish(
        records.scan_outboxes(clients().dynamodb, DEDUP, choice),
        ops_republish.with_retries(partial(_invoke, service)),
        lambda _: None,
    )


def _invoke(service: Service, batch: Sequence[ops_republish.StreamRecord]) -> Relayed:
    """Stand in for Lambda's Invoke. The relay runs, and dies, in the operator's own process."""
    clock = service.world.tasks.clock
    end = clock() + service.relay.seconds
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: int((end - clock()) * 1000))
    try:
        answer: Relayed = service.relay.make()({"Records": json.loads(json.dumps(batch))}, context)
    except (NotRelayed, ClientError, BotoCoreError) as error:
        raise RelayFailed(repr(error)) from error
    return answer


@contextmanager
def on_time(clock: Callable[[], float]) -> Iterator[None]:
    """Let the command line's parts know the time of a world."""
    calendar = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(clock(), zone))
    with ExitStack() as stack:
        for module in (safety, ops_redrive, records):
            stack.enter_context(patch.object(module, "datetime", calendar))
        yield


def _deployment(service: Service) -> Deployment:
    return Deployment(
        service="once",
        ingress_topic_arn=INGRESS,
        events_topic_arn=EVENTS,
        relay_function_name=f"once-{RELAY}",
        relay_dead_letter_url=url(service.relay_dead_letters),
        unrouted_queue_url="unrouted",
        sweep_queue_url="sweep",
        dedup_table=DEDUP,
        tables={},
        consumers={
            name: DeployedConsumer(name, url(place.queue), url(place.dead_letters), f"once-{name}")
            for name, place in service.places.items()
        },
    )
