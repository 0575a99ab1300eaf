"""Checks of the scaling options of consumers and tables. Each fault states its remedy.

The limits are those that AWS documents for event source mappings of SQS and for on-demand tables.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from once.cdk.props import ConsumerProps, TableProps
from once.cdk.scaling import (
    INVOCATIONS_PER_POLLER,
    ISOLATION_CONCURRENCY,
    Pollers,
    WarmThroughput,
)

CONCURRENCY = range(2, 1001)
LEAST_POLLERS = range(2, 201)
MOST_POLLERS = range(2, 10_001)
INITIAL = WarmThroughput(reads=12_000, writes=4_000)
"""Warm throughput of a new on-demand table. DynamoDB refuses a lower one."""


def scaling_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every fault of one consumer's scaling options, without the consumer's name."""
    if consumer.max_concurrency is not None and consumer.max_concurrency not in CONCURRENCY:
        yield f"max_concurrency={consumer.max_concurrency}; choose 2 to 1000"
    if consumer.pollers is not None:
        yield from _poller_faults(consumer, consumer.pollers)
    yield from _reservation_faults(consumer)
    for table in consumer.tables:
        yield from _warm_faults(f"the table {table.name!r} has ", table.warm_throughput)


def deployment_throughput_faults(warm: WarmThroughput | None) -> Iterator[str]:
    """Yield every fault of the dedup table's warm throughput."""
    yield from _warm_faults("dedup_", warm)


def shared_throughput_faults(tables: Sequence[TableProps]) -> Iterator[str]:
    """Yield a fault for each table whose declarations have different warm throughput."""
    found: dict[str, set[WarmThroughput | None]] = defaultdict(set)
    for table in tables:
        found[table.name].add(table.warm_throughput)
    for name, values in found.items():
        if len(values) > 1:
            yield (
                f"table {name!r} is declared with {len(values)} different warm_throughput; declare "
                "it once and share it"
            )


def _poller_faults(consumer: ConsumerProps, pollers: Pollers) -> Iterator[str]:
    if consumer.max_concurrency is not None:
        yield (
            f"it has pollers= and max_concurrency={consumer.max_concurrency}, and Lambda accepts "
            f"one of them: leave max_concurrency out, and limit the load by Pollers(maximum=…), "
            f"which allows {INVOCATIONS_PER_POLLER} invocations each"
        )
    for name, allowed in (("minimum", LEAST_POLLERS), ("maximum", MOST_POLLERS)):
        if (given := getattr(pollers, name)) not in allowed:
            yield f"pollers has {name}={given}; choose {allowed[0]} to {allowed[-1]}"
    if pollers.minimum > pollers.maximum:
        yield (
            f"pollers has minimum={pollers.minimum} over maximum={pollers.maximum}; lower the "
            "minimum, or raise the maximum"
        )


def _reservation_faults(consumer: ConsumerProps) -> Iterator[str]:
    reserved, main = consumer.reserved_concurrency, consumer.concurrency
    isolated = ISOLATION_CONCURRENCY if consumer.batch_size > 1 else 0
    if reserved is not None and reserved < main + isolated:
        # Each throttle spends a receive of the messages in its batch.
        yield (
            f"reserved_concurrency={reserved} throttles the function: its queue makes up to {main} "
            f"invocations at a time and its isolation queue {isolated}; raise it to "
            f"{main + isolated}, or lower max_concurrency or the maximum of pollers"
        )


def _warm_faults(place: str, warm: WarmThroughput | None) -> Iterator[str]:
    if warm is None:
        return
    if warm.reads < INITIAL.reads or warm.writes < INITIAL.writes:
        yield (
            f"{place}warm_throughput={warm.reads},{warm.writes}, and every table on demand begins "
            f"with {INITIAL.reads},{INITIAL.writes}, which DynamoDB does not lower; raise both to "
            "that or more, or leave it out"
        )
