"""The self-check: each control must be judged rightly before a verdict counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from redelivery.examination import examine
from redelivery.faults import Fault
from redelivery.report import Kind
from redelivery.subject import Subject, Table


@dataclass(frozen=True, slots=True)
class Control:
    """A handler whose verdict is known.

    Attributes:
        name: its module.
        fault: the fault that finds its bug.
        kind: what the fault must show; None for a sound handler.
    """

    name: str
    fault: Fault
    kind: Kind | None


CONTROLS = (
    Control("ack_before_write", Fault.DIES_BEFORE, Kind.ACKNOWLEDGED_EARLY),
    Control("get_then_put", Fault.IN_PARALLEL, Kind.DOUBLED),
    Control("message_id_as_key", Fault.SENT_AGAIN, Kind.DOUBLED),
    Control("conditional_put", Fault.DIES_AFTER, None),
)


def self_check() -> dict[str, bool]:
    """Return for each control whether it was judged rightly. They run once in a Python process."""
    return {control.name: _is_judged_rightly(control) for control in CONTROLS}


@cache
def _is_judged_rightly(control: Control) -> bool:
    results = examine(_subject(control), only=[control.fault]).results
    fired = [result for result in results if result.fired]
    found = {difference.kind for result in fired for difference in result.differences}
    return bool(fired) and found == ({control.kind} if control.kind else set())


def _subject(control: Control) -> Subject:
    return Subject(
        handler=f"{control.name}.handler",
        root=Path(__file__).parent / "controls",
        events=[{"order_id": "o-1", "amount": 5}],
        tables=tuple(_tables(control)),
        environment={"QUEUE_URL": "{source}"},
        key="order_id",
    )


def _tables(control: Control) -> Iterator[Table]:
    yield Table("orders", "order_id")
    if control.name == "message_id_as_key":
        yield Table("processed", "message_id", compared=False)
