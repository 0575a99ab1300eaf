"""The CPU time to read a message, as a ratio to a plain message of the same size."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from time import process_time
from types import SimpleNamespace
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from once.errors import OnceError
from once.failures.quarantine import Quarantine
from once.intake.reader import RecordReader
from proof.fuzz import messages
from proof.fuzz.envelope_families import ENVELOPES, reader_of
from proof.fuzz.families import FAMILIES as WITHOUT_ENVELOPE
from proof.fuzz.families import PLAIN
from proof.fuzz.parsers.intake import CONSUMERS, DEADLINE, READERS, error_of, settings_of

SIZES = (16 * 1024, 64 * 1024, 256 * 1024)
FAMILIES = {**WITHOUT_ENVELOPE, **ENVELOPES}
COSTS = len(SIZES) * len(FAMILIES)
MAX_RATIO = 20.0
_REPEATS = 3
_SQS: Any = SimpleNamespace(send_message=lambda **_: None)
_QUARANTINE = Quarantine(_SQS, settings_of(CONSUMERS["orders"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a message of a family: the ratio of its CPU time to that of a plain message.

    `accepted` tells whether its handler would run.
    """

    family: str
    bytes: int
    accepted: bool
    ratio: float


def costs(sizes: Iterable[int] = SIZES) -> Iterator[Cost]:
    """Yield the cost of each family in each size."""
    for size in sizes:
        for family in FAMILIES:
            yield cost(family, size)


def cost(family: str, size: int) -> Cost:
    """Return the cost of one message: the fastest of a few runs, alternating with a plain one."""
    message, ordinary = (
        SQSRecord(messages.record(m)) for m in (FAMILIES[family](size), PLAIN(size))
    )
    plain = READERS["orders"]
    reader = reader_of(family) if family in ENVELOPES else plain
    accepted = read(message, reader) is None
    times = [(_seconds(message, reader), _seconds(ordinary, plain)) for _ in range(_REPEATS)]
    slow, fast = map(min, zip(*times, strict=True))
    return Cost(family=family, bytes=size, accepted=accepted, ratio=round(slow / fast, 2))


def read(record: SQSRecord, reader: RecordReader) -> OnceError | None:
    """Read a message, and quarantine it if it is refused; return why, None if it is accepted."""
    delivery = reader.read(record, DEADLINE)
    error = error_of(delivery)
    if error is not None:
        _QUARANTINE.send(delivery, error)
    return error


def figures(found: Iterable[Cost]) -> dict[str, Any]:
    """Return the figures of the report: the largest ratio, and the slowest message of each kind."""
    ordered = sorted(found, key=lambda one: one.ratio)
    slowest = {one.accepted: asdict(one) for one in ordered}
    return {
        "slowest_ratio": ordered[-1].ratio if ordered else 0.0,
        "slowest_accepted": slowest.get(True),
        "slowest_refused": slowest.get(False),
    }


def _seconds(record: SQSRecord, reader: RecordReader) -> float:
    start = process_time()
    read(record, reader)
    return process_time() - start
