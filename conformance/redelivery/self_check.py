"""The self-check: each control must be judged rightly before a verdict counts."""

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

    @property
    def subject(self) -> Subject:
        """The handler with its tables and one sample."""
        tables = [Table("orders", "order_id")]
        if self.name == "message_id_as_key":
            tables.append(Table("processed", "message_id", compared=False))
        return Subject(
            handler=f"{self.name}.handler",
            root=Path(__file__).parent / "controls",
            events=[{"order_id": "o-1", "amount": 5}],
            tables=tables,
            environment={"QUEUE_URL": "{source}"},
            key="order_id",
        )


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
    results = examine(control.subject, only=[control.fault]).results
    fired = [result for result in results if result.fired]
    found = {difference.kind for result in fired for difference in result.differences}
    return bool(fired) and found == ({control.kind} if control.kind else set())
