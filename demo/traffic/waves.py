"""Waves: the batches of bodies in which a traffic plan is sent."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from demo.traffic.traffic_plan import TrafficPlan

BodyBatch = tuple[str, ...]
"""The bodies of one call."""

BATCH_SIZE = 10
"""Limit of SNS and SQS for one call. Ten of the largest bodies stay below 256 KiB."""


def first_wave(plan: TrafficPlan) -> Iterator[BodyBatch]:
    """Yield every first delivery, mixed with malformed bodies and with two kinds of duplicates.

    An order and its at-once duplicates share a batch. Its parallel duplicates follow in the next
    one, which another thread sends while the first is still under way.
    """
    at_once = Counter(plan.at_once)
    parallel = Counter(order.body for order in plan.parallel)
    groups = [[order.body] * (1 + at_once[order]) for order in plan.orders]
    groups += [[body] for body in plan.malformed]
    Random(f"{plan.seed}/first").shuffle(groups)
    for batch in _batches(groups):
        yield batch
        yield from _batches([body] * parallel[body] for body in dict.fromkeys(batch))


def late_wave(plan: TrafficPlan) -> Sequence[BodyBatch]:
    """Return late duplicates and conflicts, which are sent after the first wave was processed."""
    bodies = [order.body for order in plan.late]
    bodies += [order.conflicting().body for order in plan.conflicts]
    Random(f"{plan.seed}/late").shuffle(bodies)
    return list(_batches([body] for body in bodies))


def _batches(groups: Iterable[list[str]]) -> Iterator[BodyBatch]:
    """Fill batches without dividing a group, unless it is larger than a batch."""
    batch: list[str] = []
    for part in (part for group in groups for part in _parts(group)):
        if len(batch) + len(part) > BATCH_SIZE:
            yield tuple(batch)
            batch = []
        batch += part
    if batch:
        yield tuple(batch)


def _parts(group: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(group), BATCH_SIZE):
        yield group[start : start + BATCH_SIZE]
