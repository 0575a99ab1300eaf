"""The cost of reading a message, as a ratio to a plain one of equal size, side by side."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any, cast

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from functions.orders.handler import consumer
from once.errors import OnceError
from once.failures.quarantine import Quarantine
from once.intake.reader import DecodedEvent, RecordReader
from proof.fuzz import fakes, messages
from proof.fuzz.families import FAMILIES, Grow, plain
from proof.fuzz.parsers.intake import settings_of

SIZES = (16 * 1024, 64 * 1024, 256 * 1024)
COSTS = len(SIZES) * len(FAMILIES)
MOST = 20.0
"""The largest ratio that a run lets pass."""
_RUNS = 3


class _Dump:
    """A queue that takes dead letters and keeps none."""

    def send_message(self, **_: Any) -> None:
        """Take a dead letter."""


_SETTINGS = settings_of(consumer)
_DUMP = _Dump()
_READER = RecordReader(_SETTINGS, consumer.handlers, lambda: messages.NOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """How much more an input costs than a plain one.

    Attributes:
        family: the name of the input's family.
        bytes: its size, to which it was grown.
        accepted: whether its handler would run.
        ratio: its processor time, over that of a plain message of equal size.
    """

    family: str
    bytes: int
    accepted: bool
    ratio: float


def costs(sizes: Iterable[int] = SIZES, families: Mapping[str, Grow] = FAMILIES) -> Iterator[Cost]:
    """Yield the cost of a message of each family and size."""
    for size in sizes:
        for name, grow in families.items():
            yield cost(name, grow, size)


def cost(name: str, grow: Grow, size: int) -> Cost:
    """Return the cost of one message. Both are read in turns; the quickest run of each counts."""
    ordinary, found = _record(plain(size)), _record(grow(size))
    runs = [(_seconds(found), _seconds(ordinary)) for _ in range(_RUNS)]
    accepted = handled(found) is None
    slow, quick = (min(times) for times in zip(*runs, strict=True))
    return Cost(family=name, bytes=size, accepted=accepted, ratio=round(slow / quick, 2))


def handled(record: SQSRecord) -> OnceError | None:
    """Read a message, and quarantine it where it is refused; return why it is."""
    delivery = _READER.read(record, fakes.DEADLINE)
    error = (
        delivery.decoded.data if isinstance(delivery.decoded, DecodedEvent) else delivery.decoded
    )
    if not isinstance(error, OnceError):
        return None
    Quarantine(cast(Any, _DUMP), _SETTINGS).send(delivery, error)
    return error


def figures(found: Iterable[Cost]) -> dict[str, Any]:
    """Return what stands in the report: the largest ratio, and where it was seen."""
    slowest: dict[bool, Cost] = {}
    for one in found:
        if one.accepted not in slowest or one.ratio > slowest[one.accepted].ratio:
            slowest[one.accepted] = one
    return {
        "slowest_ratio": max((one.ratio for one in slowest.values()), default=0.0),
        "slowest_accepted": asdict(slowest[True]) if True in slowest else None,
        "slowest_refused": asdict(slowest[False]) if False in slowest else None,
    }


def _record(message: messages.Message) -> SQSRecord:
    return SQSRecord(messages.record(message))


def _seconds(record: SQSRecord) -> float:
    began = process_time()
    handled(record)
    return process_time() - began
