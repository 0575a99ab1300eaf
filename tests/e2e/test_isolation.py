"""Messages that end the function, while they are read or run, in batches with healthy messages."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from demo.quiescence import wait_until_empty
from emulator.function_versions import reconfigured
from once.names import LIVE_ALIAS, DeadLetter, Reason
from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute

DYING = [f"dying-{n}" for n in range(2)]
HANGING = [f"hanging-{n}" for n in range(3)]
UNREADABLE = [f"fatal-{n}" for n in range(3)]
"""Counters whose events end the function while they are read; see the probe's model."""
ENDING = DYING + HANGING + UNREADABLE
HEALTHY = [f"healthy-{n}" for n in range(92)]
TIMEOUT_SECONDS = 4
VISIBILITY_SECONDS = 10
"""Over twice the timeout, so that two deliveries do not overlap. Each failing message is delivered
nine times."""
REST_SECONDS = 400.0
"""A bound for a busy machine: it took 255 s at a load of five per core."""


@pytest.fixture
def quick(service: Deployment) -> Iterator[Deployment]:
    """The probe with a short timeout and a short visibility timeout."""
    probe = service.parts.consumer("probe")
    with ExitStack() as stack:
        short = {probe.function_name: {"Timeout": TIMEOUT_SECONDS}}
        stack.enter_context(reconfigured(service.aws, LIVE_ALIAS, short))
        for url in probe.queue_urls:
            stack.enter_context(_visibility(service, url))
        yield service


@contextmanager
def _visibility(service: Deployment, url: str) -> Iterator[None]:
    name: Any = "VisibilityTimeout"
    before = service.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"]
    service.sqs.set_queue_attributes(QueueUrl=url, Attributes={name: str(VISIBILITY_SECONDS)})
    yield
    service.sqs.set_queue_attributes(QueueUrl=url, Attributes=before)


def test_messages_that_end_or_hang_the_function_do_not_harm_healthy_ones(quick: Deployment) -> None:
    for fault, counters in (("die", DYING), ("hang", HANGING)):
        for counter in counters:
            quick.put("controls", id=counter, fault=fault)
    _send(quick, _mixed())
    wait_until_empty(quick.sqs, quick.parts.consumer("probe").queue_urls, timeout=REST_SECONDS)
    amounts = Counter(quick.get("counters", id=name).get("amount") for name in HEALTHY)
    assert amounts == {"1": len(HEALTHY)}
    letters = quick.dead_letters("probe", len(ENDING))
    letters += quick.dead_letters("probe", 0)
    # A set: where an invocation outlasts the visibility timeout, a message is moved twice.
    found = {(_counter(letter), attribute(letter, DeadLetter.REASON)) for letter in letters}
    assert found == {(name, Reason.UNFINISHED) for name in ENDING}


def _mixed() -> list[str]:
    """Return all messages, the failing ones spread evenly."""
    fatal, step = ENDING, len(HEALTHY) // len(ENDING)
    mixed = HEALTHY.copy()
    for position, name in enumerate(fatal):
        mixed.insert(position * (step + 1), name)
    return mixed


def _send(service: Deployment, counters: list[str]) -> None:
    events = [cloud_event("probe.asked", {"counter": name}) for name in counters]
    for start in range(0, len(events), 10):
        service.send("probe", *events[start : start + 10])


def _counter(letter: dict[str, Any]) -> str:
    [name] = [name for name in ENDING + HEALTHY if f'"{name}"' in letter["Body"]]
    return name
