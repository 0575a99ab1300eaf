"""A message of a queue, and its receives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Message:
    """A message of a queue; times are in seconds since the epoch.

    Attributes:
        handles: its receipt handles, the newest last.
        deleted: whether it was deleted. A standard queue may deliver it again all the same.
        group: its message group, if it has one.
        number: its sequence number in a FIFO queue.
    """

    id: str
    body: str
    attributes: Mapping[str, Any]
    sent_at: float
    visible_at: float
    first_received_at: float = 0.0
    handles: list[str] = field(default_factory=list)
    deleted: bool = False
    group: str | None = None
    number: int | None = None

    @property
    def receives(self) -> int:
        """The number of receives."""
        return len(self.handles)

    def add_handle(self) -> None:
        """Count one more receive."""
        self.handles.append(f"{self.id}.{self.receives + 1}")
