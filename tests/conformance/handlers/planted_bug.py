"""A handler with one planted bug, and the findings that a check of it must have."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from redelivery import Fault, Kind, Subject

HERE = Path(__file__).parent / "planted"


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A handler with one bug.

    Attributes:
        subject: the handler, with what it needs.
        found_by: the faults that must find the bug, with the kind of difference.
        call: the method that the handler calls where the difference is made; empty if no call is
            the cause.
        harmless: faults that the handler survives.
    """

    subject: Subject
    found_by: Mapping[Fault, Kind]
    call: str
    harmless: tuple[Fault, ...]
