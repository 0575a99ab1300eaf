"""The operator, with the real command line's own parts: sends back what is safe to send."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

from ops import redrive as ops_redrive
from ops import safety
from ops.dead_letters import boxes
from ops.dedup_table import DedupTable
from ops.deployment import Consumer, Deployment
from ops.dlq_redrive import Job
from ops.redrive import Pace, Redriver
from ops.walk import Walk
from proof.shop.clients import clients
from proof.shop.service import DEDUP, Service, url

_MOST = 1000
_FAST = 1e9


def redrive(service: Service) -> None:
    """Send dead letters of all consumers back to their queues, as `ops dlq redrive` does.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: AWS refuses, or does not answer.
    """
    judge = partial(safety.judge_all, DedupTable(clients().dynamodb, DEDUP))
    places = [box for box in boxes(_deployment(service)) if box.queue_url is not None]
    with Walk(clients().sqs, places, _MOST) as walk:
        redriver = Redriver(clients().sqs, Pace(_FAST), walk.taken)
        job = Job(judge, redriver, unsafe=False, edited=False)
        for page in walk.pages():
            job.send(page)


@contextmanager
def on_time(clock: Callable[[], float]) -> Iterator[None]:
    """Let the command line's parts know the time of a world."""
    calendar = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(clock(), zone))
    with patch.object(safety, "datetime", calendar), patch.object(
        ops_redrive, "datetime", calendar
    ):  # fmt: skip
        yield


def _deployment(service: Service) -> Deployment:
    return Deployment(
        service="once",
        topic_arn="topic",
        relay_dead_letter_url=url(service.relay_dead_letters),
        dedup_table=DEDUP,
        tables={},
        consumers={
            name: Consumer(name, url(place.queue), url(place.dead_letters), f"once-{name}")
            for name, place in service.places.items()
        },
    )
