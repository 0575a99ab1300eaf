"""The cost to read a message, as ratios to a plain message of the same size: CPU time and memory.

Messages of the queue's sizes are read again and again in this process. Larger bodies, which claim
checks and webhooks have, are each read in a process of their own, where the peak of its memory
shows.
"""

import base64
import json
import resource
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from time import process_time, thread_time
from types import SimpleNamespace
from typing import Any, NamedTuple

from once.events.claim_check import POINTERS, ClaimStore
from once.failures.quarantine import Quarantine
from once.intake.reader import RecordReader
from once.names import PRODUCER_OBJECTS
from once.settings import CLAIM_MEMORY_FACTOR, WEBHOOK_MEMORY_FACTOR, TableSettings
from once.webhooks.captured_webhook import CaptureAttribute
from once.webhooks.endpoint import CAPTURES, GITHUB, MAX_REQUEST_BYTES, Endpoint, WebhookSettings
from once.webhooks.ingress import Ingress
from once.webhooks.signature import Secrets, sign
from proof.fuzz import messages
from proof.fuzz.families import ENVELOPES, FAMILIES, PLAIN
from proof.fuzz.reading import (
    CONSUMERS,
    CONTEXT,
    LOGGER,
    delivered,
    error_of,
    reader_of,
    settings_of,
)
from proof.workers import Part, Tell, untold
from proof.world.clients import NO_METRICS

MIB = 2**20
SIZES = (16 * 1024, 64 * 1024, 256 * 1024)
CLAIM_SIZE, LARGEST_CLAIM = 8 * MIB, 64 * MIB
"""Claim checks: every family is read in the first size, the costliest ones in the largest size."""
WEBHOOK_SIZE = MAX_REQUEST_BYTES - 1024
MAX_RATIO = 20.0
LARGE = [name for name, grow in FAMILIES.items() if not grow(1024)["messageAttributes"]]
"""Families of bodies: attributes are never larger than a message of the queue."""
_COSTLIEST = 3
_ONCE, _REPEATS = 1, 3
_MOST = 5
"""A ratio over the bound is measured up to so many times longer."""
_SQS: Any = SimpleNamespace(send_message=lambda **_: None)
_QUARANTINE = Quarantine(_SQS, settings_of(CONSUMERS["orders"]))
_BUCKET = "claims"
_SECRET = "secret"  # noqa: S105
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024

Read = Callable[[], bool]
"""Reads a message; returns whether it is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a message of a family: ratios of its CPU time and memory to a plain message's.

    `accepted` tells whether its handler would run. `memory` is the peak of the memory to read it,
    as a multiple of its size; 0 where it is not measured.
    """

    family: str
    bytes: int
    accepted: bool
    ratio: float
    kind: str = "message"
    memory: float = 0.0
    memory_ratio: float = 0.0


class Reading(NamedTuple):
    """One reading: whether the message was accepted, CPU time, and growth of the memory."""

    accepted: bool
    seconds: float
    bytes: int


def parts() -> list[Part]:
    """Return the parts of the measurement, each with a list of costs."""
    texts = [("message", family, size) for family, size in product(FAMILIES, SIZES)]
    bodies = [("webhook", family, WEBHOOK_SIZE) for family in LARGE]
    claims = len(LARGE) + 2 * _COSTLIEST
    return [
        Part("claim checks", "bodies", claims, claim_costs, (), 3.0),
        Part("webhooks, cost", "bodies", len(bodies), costs, (bodies,), 0.7),
        Part("messages, cost", "messages", len(texts), costs, (texts,), 0.06),
    ]


def costs(bodies: Iterable[tuple[str, str, int]], tell: Tell = untold) -> list[Cost]:
    """Return the costs of messages, each of a kind, a family and a size."""
    found: list[Cost] = []
    for kind, family, size in bodies:
        repeats = _REPEATS if kind == "message" else _ONCE
        found.append(cost(kind, family, FAMILIES[family](size), size, repeats))
        tell(len(found))
    return found


def claim_costs(tell: Tell = untold) -> list[Cost]:
    """Return the cost of each family as a claim check, and of the costliest as the largest one."""
    found = costs((("claim", family, CLAIM_SIZE) for family in LARGE), tell)
    by_ratio = sorted(found, key=lambda one: one.ratio)[-_COSTLIEST:]
    by_memory = sorted(found, key=lambda one: one.memory)[-_COSTLIEST:]
    costliest = sorted({one.family for one in (*by_ratio, *by_memory)})
    largest = (("claim", family, LARGEST_CLAIM) for family in costliest)
    return found + costs(largest, lambda number: tell(len(LARGE) + number))


def cost(kind: str, family: str, message: messages.Message, size: int, repeats: int) -> Cost:
    """Return the cost of a message: the fastest of its readings, by turns with a plain message's.

    A ratio over the bound is measured longer: what else runs on a machine may slow down a few runs.
    """
    prepared = _PREPARED[kind]
    sample = _sample if kind == "message" else _sample_apart
    if kind != "message":  # modules that its first reading loads are no cost of a body
        prepared(family, FAMILIES[family](1024))()
    read, read_plain = prepared(family, message), prepared("", PLAIN(size))
    found, plain = sample(read), sample(read_plain)
    for turn in range(1, _MOST * repeats):
        if turn >= repeats and found.seconds <= MAX_RATIO * plain.seconds:
            break
        found, plain = min(found, sample(read)), min(plain, sample(read_plain))
    return Cost(
        kind=kind,
        family=family,
        bytes=size,
        accepted=found.accepted,
        ratio=round(found.seconds / plain.seconds, 2),
        memory=round(found.bytes / size, 1),
        memory_ratio=round(found.bytes / max(plain.bytes, size), 2),
    )


def fault_of(cost: Cost) -> str | None:
    """Return the published bound that a cost is over, as a sentence; None if it is within all."""
    most = {"claim": CLAIM_MEMORY_FACTOR, "webhook": WEBHOOK_MEMORY_FACTOR}
    text = f"{cost.kind}, {cost.family}, {cost.bytes} bytes:"
    if cost.ratio > MAX_RATIO:
        return f"{text} {cost.ratio} times the CPU time of a plain body"
    if cost.memory_ratio > MAX_RATIO:
        return f"{text} {cost.memory_ratio} times the memory of a plain body"
    if cost.memory > most.get(cost.kind, cost.memory):
        return f"{text} {cost.memory} bytes of memory for each, and synthesis expects less"
    return None


def figures(found: Iterable[Cost]) -> dict[str, Any]:
    """Return the figures of the report: the largest ratios, and the costliest message of each kind.

    `memory` is the largest multiple of a body's size that reading it took.
    """
    ordered = sorted(found, key=lambda one: max(one.ratio, one.memory_ratio))
    slowest = {one.accepted: asdict(one) for one in ordered}
    return {
        "slowest_ratio": max((one.ratio for one in ordered), default=0.0),
        "memory_ratio": max((one.memory_ratio for one in ordered), default=0.0),
        "memory": max((one.memory for one in ordered), default=0.0),
        "slowest_accepted": slowest.get(True),
        "slowest_refused": slowest.get(False),
    }


def _read(message: messages.Message, reader: RecordReader) -> bool:
    """Read a message, and quarantine it if it is refused; return whether it is accepted."""
    delivery = delivered(reader, message)
    error = error_of(delivery)
    if error is not None:
        _QUARANTINE.send(delivery, error)
    return error is None


def _message(family: str, message: messages.Message) -> Read:
    return partial(_read, message, reader_of(ENVELOPES.get(family, "")))


def _claim(family: str, message: messages.Message) -> Read:
    """Return the reading of a body that a pointer of AWS's clients stands for."""
    content = memoryview(message["body"].encode())
    found = {"ContentLength": len(content), "Body": SimpleNamespace(read=content.tobytes)}
    s3: Any = SimpleNamespace(get_object=lambda **_: found)
    store = ClaimStore(s3, _BUCKET, len(content))
    pointer = [POINTERS[0], {"s3BucketName": _BUCKET, "s3Key": f"{PRODUCER_OBJECTS}1"}]
    sent = messages.message(json.dumps(pointer, separators=(",", ":")))
    source, most = ENVELOPES.get(family, ""), len(content)
    reader = reader_of(source, store, max_body_bytes=most, claim_bucket=_BUCKET)
    return partial(_read, sent, reader)


def _webhook(_: str, message: messages.Message) -> Read:
    """Return the answer to a request of GitHub with this body, as a function URL passes it on."""
    github = Endpoint("github", GITHUB, types=("push",))
    settings = WebhookSettings(
        consumer="webhooks",
        dedup_table="dedup",
        tables={CAPTURES: TableSettings(CAPTURES, (CaptureAttribute.PK,))},
        dedup_window_seconds=45 * 86400,
        publishes=github.event_types,
        endpoints=(github,),
        secrets={"github": "arn"},
        capture_seconds=30 * 86400,
        max_body_bytes=MAX_REQUEST_BYTES,
        claim_bucket=_BUCKET,
    )
    aws: Any = SimpleNamespace(
        of=lambda *_, **__: Secrets((_SECRET,)),
        batch_get_item=lambda **_: {"Responses": {}},
        transact_write_items=lambda **_: {},
        put_object=lambda **_: {},
        meta=SimpleNamespace(events=SimpleNamespace(register=lambda *_, **__: None)),
    )
    ingress = Ingress(
        settings=settings, dynamodb=aws, secrets=aws, logger=LOGGER, s3=aws, metrics=NO_METRICS
    )
    content = message["body"].encode()
    signed = sign(GITHUB, _SECRET, content, webhook_id="1", now=messages.NOW)
    event = {
        "requestContext": {"http": {"method": "POST"}},
        "rawPath": "/github",
        "headers": {"content-type": "application/json", "x-github-event": "push", **signed},
        "body": base64.b64encode(content).decode(),
        "isBase64Encoded": True,
    }
    return lambda: ingress.handle(event, CONTEXT)["statusCode"] == 200


_PREPARED = {"message": _message, "claim": _claim, "webhook": _webhook}


def _sample(read: Read) -> Reading:
    # The clock of the process advances by whole ticks of 4 ms while `Parser` limits its time.
    start = thread_time()
    return Reading(read(), thread_time() - start, 0)


def _sample_apart(read: Read) -> Reading:
    """Read a body in a process of its own."""
    fork = get_context("fork")
    output, given = fork.Pipe(duplex=False)

    def measure() -> None:
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()
        accepted, seconds = read(), process_time() - start
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        given.send(Reading(accepted, seconds, growth * _RSS_UNIT))

    child = fork.Process(target=measure)
    child.start()
    given.close()  # so that there is an error if the process ends without an answer
    found: Reading = output.recv()
    child.join()
    return found
