"""Checks of FIFO consumers, fair queues and the fields of their message groups.

The limits are those of AWS's documentation of FIFO queues as event sources of Lambda.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from once.cdk.props import ConsumerProps

FIFO_BATCH_SIZE = 10
_FIELD = re.compile(r"[^\s.]+(\.[^\s.]+)*")


def line_group_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield the faults of one line's message groups, without the consumer's name."""
    yield from _fifo_faults(consumer) if consumer.fifo else _standard_faults(consumer)
    for name in ("ordered_by", "fair_by"):
        path = getattr(consumer, name)
        if path is not None and not _FIELD.fullmatch(path):
            yield (
                f"{name}={path!r} names no field of the data; give a name such as 'order_id', "
                "with dots for nesting"
            )


def _fifo_faults(consumer: ConsumerProps) -> Iterator[str]:
    if consumer.ordered_by is None:
        yield (
            "fifo=True without ordered_by; name the field of the data whose events keep their "
            "order, such as ordered_by='order_id'"
        )
    if consumer.fair_by is not None:
        yield (
            f"fair_by={consumer.fair_by!r} with fifo=True; a FIFO queue has one group for each "
            "message, that of ordered_by: leave fair_by out, or fifo"
        )
    if consumer.batch_size > FIFO_BATCH_SIZE:
        yield (
            f"batch_size={consumer.batch_size} with fifo=True; Lambda takes at most "
            f"{FIFO_BATCH_SIZE} messages from a FIFO queue: lower it"
        )
    if consumer.batch_window_seconds > 0:
        yield (
            f"batch_window_seconds={consumer.batch_window_seconds} with fifo=True; Lambda gathers "
            "no batch from a FIFO queue: leave it out"
        )


def _standard_faults(consumer: ConsumerProps) -> Iterator[str]:
    if consumer.ordered_by is not None:
        yield (
            f"ordered_by={consumer.ordered_by!r} without fifo; a standard queue keeps no order: "
            "add fifo=True, or use fair_by if only fairness is meant"
        )
    if consumer.blocks_group:
        yield (
            "blocks_group=True without fifo; messages of a standard queue do not wait for one "
            "another: add fifo=True and ordered_by, or leave it out"
        )


def group_set_faults(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    """Yield the faults of message groups that concern several consumers."""
    yield from _two_fields(consumers)
    yield from _fair_ordered_types(consumers)


def _two_fields(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    lines: dict[str, dict[str, str]] = defaultdict(dict)
    for consumer in consumers:
        if consumer.grouped_by is not None:
            for event in consumer.event_types:
                lines[event].setdefault(consumer.grouped_by, consumer.name)
    for event, found in lines.items():
        if len(found) > 1:
            shown = " and ".join(f"{path!r} by {name!r}" for path, name in found.items())
            yield (
                f"the type {event!r} is grouped by {shown}, and a message has one group; give all "
                "its consumers the same field in ordered_by= and fair_by="
            )


def _fair_ordered_types(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    ordered = {event: line.name for line in consumers if line.fifo for event in line.event_types}
    for consumer in consumers:
        if consumer.fifo or consumer.fair_by is None:
            continue
        for event in consumer.event_types:
            if event in ordered:
                yield (
                    f"consumer {consumer.name!r}: fair_by={consumer.fair_by!r} has no effect on "
                    f"{event!r}, which {ordered[event]!r} takes with fifo=True: an SNS FIFO topic "
                    "passes no message group to a standard queue; leave fair_by out, or take "
                    "the type with fifo=True"
                )
