"""Tables and queues that exist already: a service uses them, and does not make them."""

from dataclasses import dataclass

DEDUP = "dedup-records"
"""Construct id of the dedup table, and its name in `existing_tables`. Logical ids are made of it
and of the tables' names: if one is renamed, CloudFormation replaces the table by an empty one."""


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table that takes the place of one that the service would make.

    Attributes:
        arn: the table's ARN.
        key_arn: the ARN of its customer managed key, if it has one.
        stream_arn: the ARN of the stream of new and old images. The dedup table alone needs one.
    """

    arn: str
    key_arn: str | None = None
    stream_arn: str | None = None


@dataclass(frozen=True, slots=True)
class ExistingQueue:
    """A queue that a consumer reads, in place of one of its own that topics deliver into.

    Attributes:
        arn: the queue's ARN.
        key_arn: the ARN of its customer managed key, if it has one.
    """

    arn: str
    key_arn: str | None = None
