"""Tables and queues that exist already: a service uses them, and does not make them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table that takes the place of one that the service would make.

    Attributes:
        arn: the table's ARN.
        key_arn: the ARN of its customer managed key, if it has one.
    """

    arn: str
    key_arn: str | None = None


@dataclass(frozen=True, slots=True)
class ExistingQueue:
    """A queue that a consumer reads, in place of one of its own that topics deliver into.

    Attributes:
        arn: the queue's ARN.
        key_arn: the ARN of its customer managed key, if it has one.
    """

    arn: str
    key_arn: str | None = None
