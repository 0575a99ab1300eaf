"""Message groups of event types: which field gives a type's group, and which types are ordered."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from once.cdk.props import ConsumerProps


@dataclass(frozen=True, slots=True)
class MessageGroups:
    """The message groups of a deployment's event types.

    Attributes:
        fields: the field of the data that gives the message group, by event type.
        ordered: the types that some FIFO consumer takes. They are published to a FIFO topic only,
            which delivers to the standard queues of their other consumers as well.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    ordered: frozenset[str] = frozenset()

    @classmethod
    def of(cls, consumers: Iterable[ConsumerProps]) -> Self:
        """Return the groups that the lines of a registry declare.

        A retiring line counts: producers keep their topic until it is deleted.
        """
        lines = list(consumers)
        return cls(
            fields={
                event: line.grouped_by
                for line in lines
                if line.grouped_by is not None
                for event in line.event_types
            },
            ordered=frozenset(event for line in lines if line.fifo for event in line.event_types),
        )

    def among(self, types: Collection[str]) -> "MessageGroups":
        """Return the groups of these types only."""
        return MessageGroups(
            fields={event: path for event, path in self.fields.items() if event in types},
            ordered=self.ordered.intersection(types),
        )
