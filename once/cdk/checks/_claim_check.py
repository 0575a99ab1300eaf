"""Checks of the claim check. Each fault states its remedy."""

from collections.abc import Iterator, Sequence

from once.cdk.props import ConsumerProps
from once.settings import CLAIM_MEMORY_FACTOR, FUNCTION_MB

MEGABYTES = range(65)


def claim_check_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every fault of one consumer's claim check, without the consumer's name."""
    largest = consumer.claim_check_mb
    if largest not in MEGABYTES:
        yield f"claim_check_mb={largest}; choose 1 to {MEGABYTES[-1]}, or 0 for none"
    elif largest and (need := _needed_mb(largest, consumer.batch_size)) > consumer.memory_mb:
        yield (
            f"memory_mb={consumer.memory_mb} does not hold a batch of {consumer.batch_size} events "
            f"of claim_check_mb={largest}, each of which may take {CLAIM_MEMORY_FACTOR} times its "
            f"size; raise memory_mb to {need}, or lower batch_size"
        )


def _needed_mb(largest: int, batch_size: int) -> int:
    return FUNCTION_MB + CLAIM_MEMORY_FACTOR * largest * batch_size


def unread_claim_faults(consumers: Sequence[ConsumerProps]) -> Iterator[str]:
    """Yield a fault for each consumer that cannot read the data of events that it takes."""
    for publisher in consumers:
        for taker in consumers:
            shared = [event for event in publisher.publishes if event in taker.events]
            if shared and publisher.claim_check_mb > taker.claim_check_mb:
                yield (
                    f"consumer {taker.name!r}: it takes {shared[0]!r}, whose data may have "
                    f"{publisher.claim_check_mb} MiB in S3; set its claim_check_mb= to that of "
                    f"consumer {publisher.name!r}"
                )
